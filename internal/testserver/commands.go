package testserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
)

// command is one line of the input of [Server.Obey].
type command struct {
	Name   string     `json:"command"`
	Code   codes.Code `json:"code"`   // of refuse: the name of a gRPC code, such as "UNAVAILABLE"
	Reason string     `json:"reason"` // of refuse
}

// answer is one line of the output. It is empty if the command was carried out.
type answer struct {
	Error string `json:"error,omitempty"`
}

// Obey carries out commands until the input ends. Each command is a line of JSON, and so is its answer.
func (s *Server) Obey(in io.Reader, out io.Writer) error {
	answers := json.NewEncoder(out)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var a answer
		if err := s.obey(lines.Bytes()); err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return fmt.Errorf("answer a command: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read a command: %w", err)
	}
	return nil
}

func (s *Server) obey(line []byte) error {
	var c command
	strict := json.NewDecoder(bytes.NewReader(line))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&c); err != nil {
		return fmt.Errorf("cannot read the command: %w", err)
	}
	if c.Name == "refuse" {
		return s.Refuse(c.Code, c.Reason)
	}
	do := map[string]func(){
		"cut_connections":  s.CutConnections,
		"stop":             s.Stop,
		"start":            s.Start,
		"accept":           s.Accept,
		"expire_positions": s.ExpirePositions,
		"new_epoch":        s.NewEpoch,
		"stop_etcd":        s.StopEtcd,
		"start_etcd":       s.StartEtcd,
	}[c.Name]
	if do == nil {
		return fmt.Errorf("unknown command %q", c.Name)
	}
	do()
	return nil
}
