package check

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/rollcall-io/rollcall/subjects/schema"
)

// Document is an AsyncAPI document.
type Document struct {
	Channels   map[string]*Channel
	Operations map[string]*Operation
	Messages   map[string]*Message

	root    map[string]any
	schemas *Schemas
	faults  []error
}

// A Channel is an address with the messages that go over it.
type Channel struct {
	Name     string
	Address  string // empty for reply subjects, which are chosen by whoever asks
	Messages []*Message
	pattern  *regexp.Regexp
}

// An Operation is what a client does on a channel.
type Operation struct {
	Name, Action string
	Channel      *Channel
	Messages     []*Message
	Replies      []*Message // none if nothing comes back
}

// A Message has a schema for its body and may have one for its headers.
type Message struct {
	Name             string
	payload, headers *jsonschema.Schema
}

// base is where the document would be if the schemas were where their names say.
var base = strings.TrimSuffix(schema.Base, "subjects/schema/") + "docs/asyncapi.yaml"

// Read reads a document and says everything that is wrong with it.
func Read(path string) (*Document, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

// Parse reads a document.
func Parse(data []byte) (*Document, error) {
	var root map[string]any
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	if root["asyncapi"] != "3.0.0" {
		return nil, errors.New("check: not an AsyncAPI 3.0.0 document")
	}
	schemas, err := NewSchemas()
	if err != nil {
		return nil, err
	}
	d := &Document{
		Channels: make(map[string]*Channel), Operations: make(map[string]*Operation), Messages: make(map[string]*Message),
		root: root, schemas: schemas,
	}
	if err := schemas.compiler.AddResource(base, root); err != nil {
		return nil, err
	}
	d.checkRefs("#", root)
	if len(d.faults) == 0 { // the rest follows references
		d.readMessages()
		d.readChannels()
		d.readOperations()
	}
	if len(d.faults) == 0 {
		d.findUnused()
	}
	return d, errors.Join(d.faults...)
}

func (d *Document) fault(format string, args ...any) {
	d.faults = append(d.faults, fmt.Errorf("check: "+format, args...))
}

// checkRefs finds references that lead nowhere.
func (d *Document) checkRefs(at string, value any) {
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			d.checkRefs(fmt.Sprint(at, "/", i), item)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			d.checkRefs(at+"/"+key, v[key])
		}
		ref, isRef := v["$ref"].(string)
		if !isRef {
			return
		}
		if file, external := strings.CutPrefix(ref, "../subjects/schema/"); external {
			if _, err := d.schemas.Compile(strings.Replace(file, ".json", "", 1)); err != nil {
				d.fault("%s: %v", at, err)
			}
		} else if _, found := d.lookUp(ref); !found {
			d.fault("%s: nothing at %s", at, ref)
		}
	}
}

func (d *Document) lookUp(ref string) (any, bool) {
	path, internal := strings.CutPrefix(ref, "#/")
	if !internal {
		return nil, false
	}
	var value any = d.root
	for key := range strings.SplitSeq(path, "/") {
		m, isMap := value.(map[string]any)
		if !isMap {
			return nil, false
		}
		if value, isMap = m[key]; !isMap {
			return nil, false
		}
	}
	return value, true
}

// section is a mapping of the document, empty if it is not there.
func section(value any, path ...string) map[string]any {
	for _, key := range path {
		m, _ := value.(map[string]any)
		value = m[key]
	}
	m, _ := value.(map[string]any)
	return m
}

// refTo is the last name of the reference that value is, below a prefix.
func refTo(value any, prefix string) (string, bool) {
	ref, _ := section(value)["$ref"].(string)
	name, ok := strings.CutPrefix(ref, prefix)
	return name, ok && !strings.Contains(name, "/")
}

func (d *Document) readMessages() {
	for name, value := range section(d.root, "components", "messages") {
		m := &Message{Name: name}
		d.Messages[name] = m
		for key, to := range map[string]**jsonschema.Schema{"payload": &m.payload, "headers": &m.headers} {
			if section(value)[key] == nil {
				continue
			}
			compiled, err := d.schemas.compiler.Compile(base + "#/components/messages/" + name + "/" + key)
			if err != nil {
				d.fault("message %s: %v", name, err)
			}
			*to = compiled
		}
		if section(value)["name"] != name || fmt.Sprint(section(value)["description"]) == "" || m.payload == nil {
			d.fault("message %s needs its name, a description and a payload", name)
		}
	}
}

var parameter = regexp.MustCompile(`\{([a-z]+)\}`)

func (d *Document) readChannels() {
	for name, value := range section(d.root, "channels") {
		c := &Channel{Name: name}
		d.Channels[name] = c
		c.Address, _ = section(value)["address"].(string)
		var named []string
		for _, match := range parameter.FindAllStringSubmatch(c.Address, -1) {
			named = append(named, match[1])
		}
		declared := slices.Collect(maps.Keys(section(value, "parameters")))
		slices.Sort(named)
		slices.Sort(declared)
		if !slices.Equal(named, declared) {
			d.fault("channel %s: its address has the parameters %v, and it declares %v", name, named, declared)
		}
		if c.Address != "" {
			c.pattern = regexp.MustCompile("^" + parameter.ReplaceAllString(strings.ReplaceAll(c.Address, ".", `\.`), `[^.]+`) + "$")
		}
		for key, message := range section(value, "messages") {
			target, ok := refTo(message, "#/components/messages/")
			if !ok || key != target {
				d.fault("channel %s: message %s must refer to the component of that name", name, key)
				continue
			}
			c.Messages = append(c.Messages, d.Messages[target])
		}
		if len(c.Messages) == 0 {
			d.fault("channel %s has no messages", name)
		}
	}
}

func (d *Document) readOperations() {
	for name, value := range section(d.root, "operations") {
		o := &Operation{Name: name}
		d.Operations[name] = o
		o.Action, _ = section(value)["action"].(string)
		if o.Action != "send" && o.Action != "receive" {
			d.fault("operation %s: action %q", name, o.Action)
		}
		if o.Channel, o.Messages = d.readEnd(name, value); o.Channel != nil && o.Channel.Address == "" {
			d.fault("operation %s has no address", name)
		}
		if reply := section(value)["reply"]; reply != nil {
			_, o.Replies = d.readEnd(name+" (reply)", reply)
		}
	}
}

// readEnd reads the channel and messages of an operation, or of its reply.
func (d *Document) readEnd(name string, value any) (*Channel, []*Message) {
	target, ok := refTo(section(value)["channel"], "#/channels/")
	if !ok {
		d.fault("operation %s has no channel", name)
		return nil, nil
	}
	var messages []*Message
	list, _ := section(value)["messages"].([]any)
	for _, item := range list {
		message, ok := refTo(item, "#/channels/"+target+"/messages/")
		if !ok {
			d.fault("operation %s: a message that is not one of channel %s", name, target)
			continue
		}
		messages = append(messages, d.Messages[message])
	}
	if len(messages) == 0 {
		d.fault("operation %s has no messages", name)
	}
	return d.Channels[target], messages
}

// findUnused finds what no operation uses.
func (d *Document) findUnused() {
	used := make(map[*Message]bool)
	addresses := make(map[string]string)
	for _, o := range d.Operations {
		for _, m := range append(slices.Clone(o.Messages), o.Replies...) {
			used[m] = true
		}
		if other := addresses[o.Channel.Name]; other != "" {
			d.fault("operations %s and %s share a channel", o.Name, other)
		}
		addresses[o.Channel.Name] = o.Name
	}
	for name, m := range d.Messages {
		if !used[m] {
			d.fault("no operation has message %s", name)
		}
	}
	for name, c := range d.Channels {
		if c.Address != "" && addresses[name] == "" {
			d.fault("no operation uses channel %s", name)
		}
	}
}

// Match finds the operations of a subject: one, if the document describes it.
func (d *Document) Match(subject string) (found []*Operation) {
	for _, o := range d.Operations {
		if o.Channel.pattern.MatchString(subject) {
			found = append(found, o)
		}
	}
	return found
}

// Check holds headers and body of a real message against its schemas. An empty body
// reads as null.
func (m *Message) Check(headers map[string][]string, body []byte) error {
	var value any
	if len(body) > 0 {
		var err error
		if value, err = ParseJSON(body); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	if err := m.payload.Validate(value); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	if m.headers == nil {
		return nil
	}
	all := make(map[string]any, len(headers))
	for name, values := range headers {
		all[name] = values[0]
	}
	if err := m.headers.Validate(all); err != nil {
		return fmt.Errorf("headers of %s: %w", m.Name, err)
	}
	return nil
}

// OneOf finds the one message that a real message is.
func OneOf(messages []*Message, headers map[string][]string, body []byte) (*Message, error) {
	var fitting []*Message
	var faults []error
	for _, m := range messages {
		if err := m.Check(headers, body); err != nil {
			faults = append(faults, err)
			continue
		}
		fitting = append(fitting, m)
	}
	switch len(fitting) {
	case 0:
		return nil, errors.Join(faults...)
	case 1:
		return fitting[0], nil
	}
	return nil, fmt.Errorf("check: both %s and %s", fitting[0].Name, fitting[1].Name)
}
