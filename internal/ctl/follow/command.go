package follow

import (
	"context"
	"strconv"
	"strings"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/shell"
)

// runFor runs a command for a change. Its standard input is the object as one line of JSON;
// for a deletion, the last content. The variables are:
//
//	FANOUT_EVENT         added, modified or deleted
//	FANOUT_RESOURCE      the name of the resource
//	FANOUT_KEY           the key of the object
//	FANOUT_REVISION      the revision of the change
//	FANOUT_CONTENT_TYPE  the media type of the value
func runFor(ctx context.Context, c *shell.Command, resource string, e client.Event) error {
	d := document.Of(e.Object)
	text, err := document.EncodeJSON(d, false)
	if err != nil {
		return err
	}
	return c.Run(ctx, strings.NewReader(string(text)),
		"FANOUT_EVENT="+strings.ToLower(e.Type.String()),
		"FANOUT_RESOURCE="+resource,
		"FANOUT_KEY="+e.Object.Key,
		"FANOUT_REVISION="+strconv.FormatInt(e.Revision, 10),
		"FANOUT_CONTENT_TYPE="+e.Object.ContentType)
}
