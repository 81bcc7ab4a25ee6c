package top

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"
)

// paint shows a text with the styles of package output, from the upper left corner on.
// What does not fit is not shown, nor is anything else that commands a terminal.
func paint(screen tcell.Screen, text string) {
	parser := ansi.NewParser()
	colours := screen.Colors() > 0
	style, y := tcell.StyleDefault, 0
	for line := range strings.Lines(text) {
		x, state := 0, byte(0)
		for len(line) > 0 {
			part, width, n, next := ansi.DecodeSequence(line, state, parser)
			switch {
			case width > 0:
				screen.Put(x, y, part, style)
				x += width
			case ansi.Cmd(parser.Command()).Final() == 'm' && ansi.HasCsiPrefix(part):
				style = styled(style, parser.Params(), colours)
			}
			line, state = line[n:], next
		}
		y++
	}
}

// styled follows the parameters of a change of style.
func styled(style tcell.Style, params ansi.Params, colours bool) tcell.Style {
	if len(params) == 0 {
		return tcell.StyleDefault
	}
	for _, param := range params {
		switch p := param.Param(0); {
		case p == 0:
			style = tcell.StyleDefault
		case p == 1:
			style = style.Bold(true)
		case p == 2:
			style = style.Dim(true)
		case p >= 30 && p < 38 && colours:
			style = style.Foreground(color.PaletteColor(p - 30))
		}
	}
	return style
}
