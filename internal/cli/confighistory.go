package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/queue"
)

func (e *env) configHistoryCommand() *ucli.Command {
	return &ucli.Command{
		Name: "history", Usage: "print how the configuration in force has changed",
		Description: manual(`
Prints each change of the effective configuration from the trail, the newest last:
when, the record's number, who ordered it as far as they said (by) and as the kernel
said (uid), and of every key that changed its value before and after. A change that was
made while breakwater was stopped is of the start that found it, and by nobody. The
first configuration of a store is no change.

Secrets are masked in the trail: where nothing else of a value has changed, that is
all that is said. With --json it prints the records as they are in the trail, one a line.

A time is RFC 3339 (2026-11-30T17:00:00Z), a date (2026-11-30, which begins at
0:00 UTC), or an age (90m, 24h, 7d).`,
			[]string{"0  all changes were printed", "1  it failed on the way, or nothing listens on the control socket", status2},
			"breakwater config history", "breakwater config history --since 30d",
			"breakwater config history --file copy.db --since 2026-11-01 --until 2026-12-01",
			"breakwater config history --json | jq -c '[.ts, .by, .after]'"),
		Flags: []ucli.Flag{
			fileFlag(),
			&ucli.StringFlag{Name: "since", Usage: "only changes from `TIME` on"},
			&ucli.StringFlag{Name: "until", Usage: "only changes before `TIME`"},
		},
		Action: e.configHistory,
	}
}

func (e *env) configHistory(c *ucli.Context) error {
	if err := noMoreArgs(c); err != nil {
		return err
	}
	q := queue.TrailQuery{Event: queue.EventConfigChanged}
	if err := spanFlags(c, &q); err != nil {
		return err
	}
	return e.ask(c, func(control *client.Control) error {
		if c.Bool("json") {
			return e.exportLines(c, control, q)
		}
		return e.printHistory(c, control, q)
	})
}

// printHistory prints one change at a time: there may be any number.
func (e *env) printHistory(c *ucli.Context, control *client.Control, q queue.TrailQuery) error {
	n := 0
	for line, err := range control.Records(c.Context, q) {
		if err != nil {
			return err
		}
		text, err := changeText(line)
		if err != nil {
			return err
		}
		if n++; n > 1 {
			text = append([]byte("\n"), text...)
		}
		if err := write(e.Stdout, text); err != nil {
			return err
		}
	}
	if n > 0 {
		return nil
	}
	st, err := control.Status(c.Context)
	if err != nil {
		return err
	}
	text := "no change"
	if st.Audit.FirstRecord > 1 {
		text += fmt.Sprintf("; the trail is kept from record %d on", st.Audit.FirstRecord)
	}
	return write(e.Stdout, []byte(text+"\n"))
}

// changeText is one CONFIG_CHANGED for people: a heading, and a row for each key.
func changeText(line []byte) ([]byte, error) {
	r, err := queue.ParseRecord(line)
	if err != nil {
		return nil, fmt.Errorf("a record that cannot be read: %w", err)
	}
	w := words{string(queue.AppendTime(nil, r.TS)), "record " + strconv.FormatUint(r.N, 10)}
	w.seq("copy of record", r.CopyOf)
	w.text("by", r.By)
	if r.Peer != nil {
		w.text("uid", strconv.FormatUint(uint64(r.Peer.UID), 10))
	}
	w.text("reason", quoted(r.Reason))
	text := append([]byte(oneLine(strings.Join(w, "  "))+"\n"), table(settingRows(r.Before, r.After))...)
	for _, member := range r.Cut.Members() {
		text = fmt.Appendf(text, "  the record has not all of %s: it was too long\n", member)
	}
	return text, nil
}

// errSettings: a record's before or after is no object.
var errSettings = errors.New("no object")

// settingRows are the keys that a change names, sorted, each with its value before and
// after. What cannot be taken apart, because another program wrote it or the record was
// cut, is shown whole.
func settingRows(before, after json.RawMessage) (rows [][]string) {
	was, err := settings(before)
	is, err2 := settings(after)
	if err != nil || err2 != nil {
		return [][]string{{"  - " + short(string(before), maxChange)}, {"  + " + short(string(after), maxChange)}}
	}
	var keys []string
	for key := range was {
		keys = append(keys, key)
	}
	for key := range is {
		if _, both := was[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		from, to := valueText(was[key]), valueText(is[key])
		if bytes.Equal(was[key], is[key]) {
			rows = append(rows, []string{"  " + key, to, "(what is masked of it has changed)"})
			continue
		}
		rows = append(rows, []string{"  " + key, from + " -> " + to})
	}
	return rows
}

// settings are the members of a change's before or after; none of an absent one.
func settings(doc json.RawMessage) (members map[string]json.RawMessage, err error) {
	if len(doc) == 0 {
		return nil, nil
	}
	if json.Unmarshal(doc, &members) != nil || members == nil {
		return nil, errSettings
	}
	return members, nil
}

// valueText is a value in JSON, cut for a line.
func valueText(raw json.RawMessage) string {
	if raw == nil {
		return "(none)"
	}
	return short(string(raw), maxChange)
}
