package config

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Diff compares two documents of Effective and returns what CONFIG_CHANGED
// records: {"before":{"queue.prefetch":32},"after":{"queue.prefetch":64}}, keys
// sorted. A key that one side lacks is absent there. It returns nil when nothing
// has changed. An empty document has no keys, so that the first start can be told
// like any other change. before may come from another version: its keys are
// compared whether this version knows them or not.
func Diff(before, after []byte) ([]byte, error) {
	old, err := flatten(before)
	if err != nil {
		return nil, fmt.Errorf("config: read the stored configuration: %w", err)
	}
	now, err := flatten(after)
	if err != nil {
		return nil, fmt.Errorf("config: read the effective configuration: %w", err)
	}
	changes := struct {
		Before map[string]jsontext.Value `json:"before"`
		After  map[string]jsontext.Value `json:"after"`
	}{map[string]jsontext.Value{}, map[string]jsontext.Value{}}
	for key, value := range old {
		if !bytes.Equal(value, now[key]) {
			changes.Before[key] = value
		}
	}
	for key, value := range now {
		if !bytes.Equal(value, old[key]) {
			changes.After[key] = value
		}
	}
	if len(changes.Before)+len(changes.After) == 0 {
		return nil, nil
	}
	out, err := json.Marshal(changes, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("config: write the changes: %w", err)
	}
	return out, nil
}

// flatten turns nested objects into one level of dotted keys, the same names
// that section.id gives. Values are compact JSON, so that equal values are equal
// bytes.
func flatten(document []byte) (map[string]jsontext.Value, error) {
	flat := map[string]jsontext.Value{}
	if len(document) == 0 {
		return flat, nil
	}
	return flat, flattenInto(flat, "", document, maxDepth)
}

// Changes is what CONFIG_CHANGED records of a reload: of every key that changed, its
// value before and after, as in Diff. Unlike Diff it names a key also where only what
// is masked has changed: both values are then the same.
func Changes(before, after Config) (b, a []byte, err error) {
	old, err := flatten(before.Effective())
	if err != nil {
		return nil, nil, fmt.Errorf("config: read the configuration in force: %w", err)
	}
	now, err := flatten(after.Effective())
	if err != nil {
		return nil, nil, fmt.Errorf("config: read the new configuration: %w", err)
	}
	changed, _ := Reloadable(before, after)
	if b, err = only(old, changed); err == nil {
		a, err = only(now, changed)
	}
	return b, a, err
}

// only writes some of the keys, sorted.
func only(values map[string]jsontext.Value, keys []string) ([]byte, error) {
	some := map[string]jsontext.Value{}
	for _, key := range keys {
		if value, ok := values[key]; ok {
			some[key] = value
		}
	}
	out, err := json.Marshal(some, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("config: write the changes: %w", err)
	}
	return out, nil
}

func flattenInto(flat map[string]jsontext.Value, prefix string, object jsontext.Value, depth int) error {
	if depth == 0 {
		return fmt.Errorf("%s nests too deep", shown(prefix))
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(object, &members); err != nil {
		return err
	}
	for name, value := range members {
		if value.Kind() == '{' {
			if err := flattenInto(flat, prefix+name+".", value, depth-1); err != nil {
				return err
			}
			continue
		}
		if err := value.Compact(); err != nil {
			return err
		}
		flat[prefix+name] = value
	}
	return nil
}

// Reloadable compares two configurations key by key. changed are the keys that
// differ, refused those of them that only a restart can change; both sorted,
// named as in Diff ("queue.prefetch", "handler.exec.post-journal.command"). A
// reload with anything refused must not be applied at all.
func Reloadable(before, after Config) (changed, refused []string) {
	old, now := plainValues(before), plainValues(after)
	for key, one := range now {
		if was, ok := old[key]; ok && was.value == one.value {
			continue
		}
		changed = append(changed, key)
		if !one.live {
			refused = append(refused, key)
		}
	}
	for key := range old {
		// Only handlers come and go, and those are live.
		if _, ok := now[key]; !ok {
			changed = append(changed, key)
		}
	}
	slices.Sort(changed)
	slices.Sort(refused)
	return changed, refused
}

// plainValue is a setting's value in a form that == can compare.
type plainValue struct {
	value string
	live  bool
}

func plainValues(c Config) map[string]plainValue {
	values := map[string]plainValue{}
	for _, s := range schema(&c, "") {
		for _, one := range s.settings {
			values[s.id(one.name)] = plainValue{inHCL(one.value.plain()), one.live}
		}
	}
	return values
}
