package request

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// WriteLimits limits what a request may write.
type WriteLimits struct {
	ValueBytes int // of one value
	Operations int // of one transaction
	TTL        time.Duration
}

// Batch turns the operations of a request into operations of the store.
type Batch struct {
	Checker
	Limits WriteLimits
	Codec  object.Codec

	// ReturnCurrent makes every operation ask for the current record.
	ReturnCurrent bool

	Ops []object.Op

	several bool // the request is a transaction
}

// ValueField returns the name of the value of an operation in messages, before a JSON pointer into it.
func (b *Batch) ValueField(i int) string {
	name := "put.value"
	if b.Ops[i].Kind == object.OpDelete {
		name = "delete"
	}
	if b.several {
		return fmt.Sprintf("operations[%d].%s", i, name)
	}
	return name
}

func (b *Batch) Operations(operations []*fanoutv1.Operation) {
	if n := len(operations); n == 0 || n > b.Limits.Operations {
		b.Refuse("operations", "has %d operations, must have between 1 and %d", n, b.Limits.Operations)
		return
	}
	b.several = true
	keys := map[object.Key]bool{}
	for i, operation := range operations {
		field := fmt.Sprintf("operations[%d]", i)
		var key object.Key
		switch kind := operation.GetOperation().(type) {
		case *fanoutv1.Operation_Put:
			key = b.Put(field+".put", kind.Put)
		case *fanoutv1.Operation_Delete:
			key = b.Delete(field+".delete", kind.Delete)
		case *fanoutv1.Operation_Check:
			key = b.check(field+".check", kind.Check)
		default:
			b.Refuse(field, "must be a put, a delete or a check")
		}
		if key != "" && keys[key] {
			b.Refuse(field, "has the key %q of an earlier operation", key)
		}
		keys[key] = true
	}
}

// The methods below add one operation each. They return its key, or an empty key if the
// operation is refused.

func (b *Batch) Put(field string, p *fanoutv1.PutOperation) object.Key {
	if p == nil {
		b.Refuse(field, "must be set")
		return ""
	}
	op := object.Op{
		Kind: object.OpPut,
		Key:  b.key(field+".key", p.GetKey()),
		If:   b.precondition(field+".if_mod_revision", p.IfModRevision),
		TTL:  b.ttl(field+".ttl", p.GetTtl()),

		KeepTTL: p.GetKeepTtl(),
	}
	if p.GetKeepTtl() && p.GetTtl() != nil {
		b.Refuse(field+".keep_ttl", "must not be set together with ttl")
	}
	if mayExist := op.If == nil || *op.If != 0; mayExist && !p.GetOverwriteOpaque() {
		op.Seen = &object.Seen{ModRevision: object.Unseen}
	}
	content := object.Content{ContentType: p.GetContentType(), Labels: p.GetLabels()}
	b.contentType(field+".content_type", content.ContentType)
	valueField := field + ".value"
	switch value := p.GetValue().(type) {
	case *fanoutv1.PutOperation_Text:
		valueField, content.Value = field+".text", []byte(value.Text)
	case *fanoutv1.PutOperation_Data:
		valueField, content.Value = field+".data", value.Data
	}
	_, isText := p.GetValue().(*fanoutv1.PutOperation_Text)
	if n := len(content.Value); n > b.Limits.ValueBytes {
		b.Refuse(valueField, "has %d bytes, the limit is %d", n, b.Limits.ValueBytes)
	} else {
		op.Value = b.encode(field, valueField, content, isText)
	}
	return b.add(op)
}

func (b *Batch) Delete(field string, d *fanoutv1.DeleteOperation) object.Key {
	if d == nil {
		b.Refuse(field, "must be set")
		return ""
	}
	return b.add(object.Op{
		Kind: object.OpDelete,
		Key:  b.existingKey(field+".key", d.GetKey()),
		If:   b.precondition(field+".if_mod_revision", d.IfModRevision),

		ReturnDeleted: d.GetReturnDeleted(),
	})
}

func (b *Batch) check(field string, c *fanoutv1.CheckOperation) object.Key {
	if c == nil {
		b.Refuse(field, "must be set")
		return ""
	}
	if c.ModRevision == nil {
		b.Refuse(field+".mod_revision", "must be set; 0 means that the key must not exist")
	}
	return b.add(object.Op{
		Kind: object.OpCheck,
		Key:  b.existingKey(field+".key", c.GetKey()),
		If:   b.precondition(field+".mod_revision", c.ModRevision),
	})
}

func (b *Batch) add(op object.Op) object.Key {
	op.ReturnCurrent = b.ReturnCurrent
	b.Ops = append(b.Ops, op)
	return op.Key
}

// encode returns the stored form of a value.
func (b *Batch) encode(field, valueField string, content object.Content, isText bool) []byte {
	stored, err := object.Encode(b.Codec, content, isText)
	if err != nil {
		if err.Field == "value" {
			field = valueField
		} else {
			field += "." + err.Field
		}
		b.Refuse(field, "%s", err.Reason)
	}
	return stored
}

func (b *Batch) ttl(field string, ttl *durationpb.Duration) time.Duration {
	if ttl == nil {
		return 0
	}
	seconds, most := ttl.GetSeconds(), int64(b.Limits.TTL/time.Second)
	switch {
	case ttl.GetNanos() != 0 || seconds < 1:
		b.Refuse(field, "must be a whole number of seconds, at least 1")
		return 0
	case seconds > most:
		b.Refuse(field, "is %d seconds, the limit is %d", seconds, most)
		return 0
	}
	return time.Duration(seconds) * time.Second
}
