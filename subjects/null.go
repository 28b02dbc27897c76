package subjects

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// nullField finds a field of a request that is null in the JSON b; none is empty. Schemas
// know no null in place of a field that is left out, which encoding/json takes for the
// same. Fields that are not known may be what they like.
func nullField(b []byte, request any) string {
	if !bytes.Contains(b, []byte("null")) {
		return ""
	}
	return nullIn(b, reflect.TypeOf(request))
}

var decodesItself = reflect.TypeFor[json.Unmarshaler]()

func nullIn(b []byte, t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(decodesItself) {
		return ""
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) != nil {
		return ""
	}
	fields := reflect.VisibleFields(t)
	for given, value := range members {
		for _, f := range fields {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "" || !strings.EqualFold(name, given) || f.Type == reflect.TypeFor[json.RawMessage]():
			case string(value) == "null":
				return name
			default:
				if inner := nullIn(value, f.Type); inner != "" {
					return name + "." + inner
				}
			}
		}
	}
	return ""
}
