package config

// notYet are the settings that were changed from their default and that this version
// only keeps. They are accepted so that a file needs no change when it is updated;
// whoever relies on one has to hear that nothing acts on it.
func (c Config) notYet() (found []finding) {
	usual := unplaced("")
	for _, one := range []struct {
		key     string
		changed bool
		hint    string
	}{
		{"audit.retention_h", c.Audit.Retention != usual.Audit.Retention, "every record stays for ever"},
		{"audit.require_archive", c.Audit.RequireArchive != usual.Audit.RequireArchive, "every record stays for ever"},
	} {
		if one.changed {
			found = append(found, finding{[]string{one.key}, one.key + " has no effect in this version yet", one.hint})
		}
	}
	return found
}
