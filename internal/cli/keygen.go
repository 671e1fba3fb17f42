package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/checkpoint"
)

func (e *env) keygenCommand() *ucli.Command {
	return &ucli.Command{
		Name: "keygen", Usage: "make a key that signs checkpoints",
		Description: manual(`
Makes an Ed25519 key for signed checkpoints. The private one goes into FILE, which
only its owner can read; the public one into FILE.pub, and on stdout. Neither file
may exist: a key is never written over.

"checkpoint" in the configuration names FILE; "breakwater audit verify" wants the
public one. Give that to whoever will check, and keep it where nobody who can write
the store can change it: with a public key of his own, a forger's checkpoints are
as good as yours. The name stands beside each signature. Both are text, in the form
of C2SP signed notes.`,
			[]string{status0, "1  a file exists already or cannot be written", "2  wrong usage, or a name that cannot be"},
			"breakwater audit keygen --out /etc/breakwater/checkpoint.key",
			"breakwater audit keygen --out checkpoint.key --name branch-7.example.com/breakwater"),
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "out", TakesFile: true, Usage: "write the private key to `FILE`, the public one to FILE.pub; default checkpoint.key"},
			&ucli.StringFlag{Name: "name", Usage: "`NAME` of the key; default HOST/breakwater"},
		},
		Action: e.keygen,
	}
}

func (e *env) keygen(c *ucli.Context) error {
	if err := noMoreArgs(c); err != nil {
		return err
	}
	path, name := c.String("out"), c.String("name")
	if path == "" {
		path = "checkpoint.key"
	}
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return usageFor(c, "this host has no name that can be had (%v): give --name", err)
		}
		name = host + "/breakwater"
	}
	if err := checkpoint.CheckName(name); err != nil {
		return keyFailure(c, "name", err)
	}
	public, id, err := checkpoint.WriteKey(path, name)
	if err != nil {
		return err
	}
	where, err := filepath.Abs(path)
	if err != nil {
		where = path
	}
	if c.Bool("json") {
		return e.printJSON(map[string]string{"key": where, "public": where + checkpoint.PublicSuffix, "id": id, "verifier": public})
	}
	text := table([][]string{
		{"private key", path}, {"public key", path + checkpoint.PublicSuffix}, {"name", id},
	})
	return write(e.Stdout, fmt.Appendf(text, "%s\n", public))
}

// keyFailure gives what is wrong with a key that was named on the command line its
// exit status: a wrong usage, for the most part.
func keyFailure(c *ucli.Context, flag string, err error) error {
	var k *checkpoint.KeyError
	if !errors.As(err, &k) {
		return err
	}
	f := usageFor(c, "--%s: %s", flag, k.What).(*failure)
	if k.Hint != "" {
		f.hint = k.Hint
	}
	return f
}
