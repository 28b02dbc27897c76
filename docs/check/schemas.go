package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rollcall-io/rollcall/subjects/schema"
)

// Schemas compiles JSON Schemas that may refer to those of package schema by name.
type Schemas struct {
	compiler *jsonschema.Compiler
	names    []string
}

// NewSchemas reads the schemas of package schema.
func NewSchemas() (*Schemas, error) {
	s := &Schemas{compiler: jsonschema.NewCompiler()}
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	files, err := fs.Glob(schema.FS, "*.json")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := schema.FS.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := s.add(schema.Base+file, data); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		s.names = append(s.names, strings.TrimSuffix(file, ".json"))
	}
	return s, nil
}

// Names lists the schemas, without ".json".
func (s *Schemas) Names() []string { return s.names }

func (s *Schemas) add(url string, data []byte) error {
	document, err := ParseJSON(data)
	if err != nil {
		return err
	}
	return s.compiler.AddResource(url, document)
}

// Compile compiles "name" or, for a part of a schema, "name#/pointer".
func (s *Schemas) Compile(name string) (*jsonschema.Schema, error) {
	name, fragment, _ := strings.Cut(name, "#")
	return s.compiler.Compile(schema.Base + name + ".json#" + fragment)
}

// ParseJSON reads one JSON value as schemas need it: numbers stay exact.
func ParseJSON(data []byte) (any, error) { return jsonschema.UnmarshalJSON(bytes.NewReader(data)) }

// Codes lists the codes of refusals.
func Codes() ([]string, error) {
	data, err := schema.FS.ReadFile("error.json")
	if err != nil {
		return nil, err
	}
	var headers struct {
		Properties map[string]struct{ Enum []string }
	}
	err = json.Unmarshal(data, &headers)
	return headers.Properties["Nats-Service-Error-Code"].Enum, err
}
