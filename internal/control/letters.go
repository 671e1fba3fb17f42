package control

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

const (
	// maxLetterSteps ends a page of dead letters however little it found: so many steps
	// of the store.
	maxLetterSteps = 20
	// maxGroups bounds a table of groups: error texts may all be different.
	maxGroups = 1000
)

// letterKeys are what selects dead letters in a query.
var letterKeys = []string{"after", "code", "partition_key", "dead_before"}

// letterQuery reads what selects dead letters.
func letterQuery(q query) (l queue.LetterQuery, err error) {
	if text, ok := q["after"]; ok {
		if l.After, ok = queue.ParsePlace(text); !ok || l.After.Seq > most {
			return l, usage("after must be the next of the page before")
		}
	}
	l.Code, l.PartitionKey = queue.Code(q["code"]), q["partition_key"]
	l.DeadBefore, err = q.time("dead_before")
	return l, err
}

// deadLetters lists dead letters in the order in which they would be put back.
func (s *Server) deadLetters(x *exchange) error {
	l, err := letterQuery(x.query)
	if err != nil {
		return err
	}
	limit, err := x.query.number("limit", 1, api.MaxLimit, defaultLimit)
	if err != nil {
		return err
	}
	lines, err := x.query.truth("lines", true)
	if err != nil {
		return err
	}
	l.NoLines = !lines
	doc, err := s.letterPage(x.r.Context(), l, int(limit))
	if err != nil {
		return err
	}
	return x.ok(doc)
}

// letterPage reads in steps until it has enough, has looked at enough, or there is no
// more.
func (s *Server) letterPage(ctx context.Context, l queue.LetterQuery, limit int) (api.List[api.Exception], error) {
	out := api.List[api.Exception]{Items: []api.Exception{}}
	size := 0
	for range maxLetterSteps {
		l.Limit = limit - len(out.Items)
		if !l.NoLines {
			l.Limit = min(l.Limit, stepRows)
		}
		page, err := s.o.Store.DeadLetters(ctx, l)
		if err != nil {
			return out, err
		}
		for i := range page.Letters {
			e := &page.Letters[i]
			size += len(e.Line) + len(e.Sent)
			out.Items = append(out.Items, rowOf(e))
		}
		l.After = page.Next
		if page.Next.IsZero() {
			return out, nil
		}
		if len(out.Items) >= limit || size >= maxPageBytes {
			break
		}
	}
	out.Next = l.After.String()
	return out, nil
}

// letterGroups counts dead letters by why they are dead.
func (s *Server) letterGroups(x *exchange) error {
	l, err := letterQuery(x.query)
	if err != nil {
		return err
	}
	ctx, cancel := x.streaming() // of a million letters it takes some seconds
	defer cancel()
	l.NoLines, l.Limit = true, api.MaxLimit
	g := grouping{groups: map[groupKey]*api.LetterGroup{}}
	for {
		page, err := s.o.Store.DeadLetters(ctx, l)
		if err != nil {
			return err
		}
		for i := range page.Letters {
			g.add(&page.Letters[i])
		}
		if l.After = page.Next; page.Next.IsZero() {
			return x.ok(g.table())
		}
	}
}

// groupKey is what the letters of a group have in common.
type groupKey struct {
	code          queue.Code
	field, reason string
}

// grouping counts letters by why they are dead.
type grouping struct {
	groups map[groupKey]*api.LetterGroup
	doc    api.LetterGroups
}

func (g *grouping) add(x *queue.Exception) {
	g.doc.Total++
	k := groupKey{x.Code, x.Field, x.Reason}
	group := g.groups[k]
	if group == nil {
		if len(g.groups) == maxGroups {
			g.doc.Ungrouped++
			return
		}
		group = &api.LetterGroup{
			Code: string(x.Code), Field: x.Field, Reason: x.Reason, FirstSeq: x.Seq, LastSeq: x.Seq, Oldest: api.Time{Time: x.DeadAt},
		}
		g.groups[k] = group
	}
	group.Count++
	group.FirstSeq, group.LastSeq = min(group.FirstSeq, x.Seq), max(group.LastSeq, x.Seq)
	if x.DeadAt.Before(group.Oldest.Time) {
		group.Oldest.Time = x.DeadAt
	}
}

// table lists the groups, the largest first.
func (g *grouping) table() api.LetterGroups {
	g.doc.Items = make([]api.LetterGroup, 0, len(g.groups))
	for _, group := range g.groups {
		g.doc.Items = append(g.doc.Items, *group)
	}
	slices.SortFunc(g.doc.Items, func(a, b api.LetterGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.FirstSeq, b.FirstSeq), cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Field, b.Field), cmp.Compare(a.Reason, b.Reason))
	})
	return g.doc
}

// deadLetter shows one, with its history.
func (s *Server) deadLetter(x *exchange) error {
	seq, err := x.oneSeq()
	if err != nil {
		return err
	}
	page, err := s.o.Store.DeadLetters(x.r.Context(), queue.LetterQuery{Seq: seq, Limit: 1})
	if err != nil {
		return err
	}
	if len(page.Letters) == 0 {
		return notDead(seq)
	}
	return s.detail(x, &page.Letters[0])
}

// notDead is the answer for what is no dead letter.
func notDead(seq uint64) *problem {
	p := missing("seq %d is not a dead letter", seq)
	p.hint = "/v1/exceptions/" + strconv.FormatUint(seq, 10) + " shows it whatever its state"
	return p
}
