package cli

import (
	"context"
	"errors"

	"github.com/gdamore/tcell/v3"

	"breakwater/internal/client"
)

// topOnScreen shows the answers on the whole terminal.
func (e *env) topOnScreen(ctx context.Context, control *client.Control, o topOptions) error {
	first := askTop(ctx, control) // a daemon that is not there is told in plain words
	if first.err != nil {
		return first.err
	}
	// What terminals can do besides is not asked for: some never answer.
	screen, err := tcell.NewTerminfoScreenFromTty(nil, tcell.OptNegotiation(false), tcell.OptSanitizeContent(true))
	if err != nil {
		return errors.Join(errNoTerminal, err)
	}
	return drawTop(ctx, screen, o, first, func(ctx context.Context) look { return askTop(ctx, control) })
}

// drawTop shows the first answer and those that follow, until a person has seen
// enough, so many were shown, or ctx ends. It gives the terminal back as it was.
func drawTop(ctx context.Context, screen tcell.Screen, o topOptions, first look, ask func(context.Context) look) error {
	if err := screen.Init(); err != nil {
		return errors.Join(errNoTerminal, err)
	}
	defer screen.Fini()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v := &topView{aim: o.aim}
	answers := looks(ctx, o, afterFirst(first, ask))
	for {
		draw(screen, v)
		select {
		case l, more := <-answers:
			if !more {
				return nil
			}
			if ctx.Err() == nil {
				v.take(l)
			}
		case event := <-screen.EventQ():
			switch event := event.(type) {
			case *tcell.EventResize:
				screen.Sync()
			case *tcell.EventKey:
				if ends(event) {
					return nil
				}
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// afterFirst asks like ask, but for the first time: that answer is known already.
func afterFirst(first look, ask func(context.Context) look) func(context.Context) look {
	known := &first
	return func(ctx context.Context) look {
		if known == nil {
			return ask(ctx)
		}
		defer func() { known = nil }()
		return *known
	}
}

// ends reports whether a key means that a person has seen enough.
func ends(key *tcell.EventKey) bool {
	return key.Key() == tcell.KeyEscape || key.Key() == tcell.KeyCtrlC || key.Key() == tcell.KeyRune && key.Str() == "q"
}

// draw shows a view.
func draw(screen tcell.Screen, v *topView) {
	styles := map[tone]tcell.Style{
		toneText: tcell.StyleDefault, toneHead: tcell.StyleDefault.Bold(true), toneAlarm: tcell.StyleDefault.Bold(true).Reverse(true),
	}
	screen.Clear()
	_, height := screen.Size()
	for y, l := range v.lines(height) {
		screen.PutStrStyled(0, y, l.text, styles[l.tone])
	}
	screen.Show()
}
