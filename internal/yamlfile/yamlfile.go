// Package yamlfile reads the YAML files that people write for Rollcall: one document,
// no field that nobody knows, and errors of one line.
package yamlfile

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Decode reads the one document of a file. A typing error must not become a default, so
// unknown fields, and one twice, are errors, with the line.
func Decode(raw []byte, into any) error {
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		return plain(err)
	}
	if err := decoder.Decode(new(yaml.Node)); err != io.EOF {
		return errors.New("more than one document")
	}
	return nil
}

var goType = regexp.MustCompile(` in type \S+`)

// plain is an error of the YAML reader in one line, without what only a Go programmer
// knows.
func plain(err error) error {
	if err == io.EOF {
		return errors.New("the file is empty")
	}
	var list *yaml.TypeError
	if errors.As(err, &list) {
		return errors.New(goType.ReplaceAllString(strings.Join(list.Errors, "; "), ""))
	}
	return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
}
