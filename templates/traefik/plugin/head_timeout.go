package lbgen

import (
	"context"
	"net"
	"reflect"
	"time"
)

// headTime is the context of a client's connection whose heads have a time. Go's server answers 400 where a line breaks
// off because that time is over; but first it ends the connection's own context, whose parent is asked for Done then.
type headTime struct {
	context.Context
	connection net.Conn
	since      time.Time
	most       time.Duration
}

func withHeadTime(ctx context.Context, connection net.Conn, most time.Duration) context.Context {
	if ctx.Done() != nil { // which Traefik's is not
		return ctx
	}
	return &headTime{Context: ctx, connection: connection, since: time.Now(), most: most}
}

// Done is nil, since nothing ends this context. A connection whose time is over is closed, so that no answer goes out.
func (h *headTime) Done() <-chan struct{} {
	if time.Since(h.since) >= h.most && overdue(h.connection) {
		_ = h.connection.Close()
	}
	return nil
}

// asked is how long it may take to learn whether a connection is overdue. Who waits longer waits for another reader: the
// server's own, that looks whether the client leaves while it is answered. Then it is writing that has failed.
const asked = 100 * time.Millisecond

// overdue is whether the time for reading from a connection is over; nothing is read.
func overdue(connection net.Conn) bool {
	found := within(connection, "*net.TCPConn")
	if !found.IsValid() {
		return false
	}
	socket := found.MethodByName("SyscallConn").Call(nil)[0]
	over := make(chan bool, 1)
	go func() {
		over <- !socket.MethodByName("Read").Call([]reflect.Value{reflect.ValueOf(readable)})[0].IsNil()
	}()
	select {
	case found := <-over:
		return found
	case <-time.After(asked):
		return false
	}
}

// readable says that there is nothing to wait for.
func readable(_ uintptr) bool { return true }
