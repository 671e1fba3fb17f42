// Package doctor judges a host, a configuration and a store's file by facts that
// somebody else has gathered. It looks at nothing itself: a check is a function of
// [Facts], so that each can be told what it would see on a host that is in trouble.
//
// # Words
//
// A check has a stable name, like disk.free, by which a script may know it. What it
// finds is a [Finding]: what was seen, where, and what to do, in one of three severities.
//
//   - wrong: something fails or will fail, or a promise does not hold here
//   - smell: it works, and is probably not meant
//   - note: worth knowing
//
// A check that could not see what it needs finds nothing: it is listed as not checked,
// with the reason. A check that does not apply (the drain of a copy) is listed nowhere.
//
// Exceptions that wait for a person, dead letters, held keys and the like are what
// breakwater is for: they are smells at most, with the command that says more.
package doctor
