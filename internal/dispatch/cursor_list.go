package dispatch

// cursorList is a list of cursors. A cursor is in one list at most.
type cursorList struct{ first *cursor }

func (l *cursorList) add(c *cursor) {
	if c.next = l.first; c.next != nil {
		c.next.previous = c
	}
	l.first = c
}

func (l *cursorList) remove(c *cursor) {
	if c.previous != nil {
		c.previous.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.previous = c.previous
	}
	c.next, c.previous = nil, nil
}

// mark marks the live cursors of the list.
func (l *cursorList) mark() {
	for c := l.first; c != nil; c = c.next {
		c.mark()
	}
}
