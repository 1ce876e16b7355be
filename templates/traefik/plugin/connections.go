package lbgen

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"reflect"
	"runtime/debug"
	"sync"
)

// connections counts those of a listener; one too many is closed.
type connections struct {
	lock    sync.Mutex
	most    int
	open    map[net.Conn]bool
	tunnels int // upgraded ones, which the server no longer knows
}

// allConnections are the process's, by listener, so that a new configuration goes on counting.
var allConnections = map[string]*connections{}

func useConnections(conf *Config) *connections {
	if conf.Most == 0 {
		return nil
	}
	countersLock.Lock()
	defer countersLock.Unlock()
	found := allConnections[conf.Listener]
	if found == nil {
		found = &connections{open: map[net.Conn]bool{}}
		allConnections[conf.Listener] = found
	}
	found.most = conf.Most
	return found
}

// changed is called by Go's server whenever a connection changes.
func (c *connections) changed(connection net.Conn, now http.ConnState) {
	if now == http.StateActive || now == http.StateIdle {
		return
	}
	c.lock.Lock()
	full := false
	if now == http.StateNew {
		full = len(c.open)+c.tunnels >= c.most
		if !full {
			c.open[connection] = true
		}
	} else {
		if now == http.StateHijacked {
			c.tunnels++
		}
		delete(c.open, connection)
	}
	c.lock.Unlock()
	if full {
		_ = connection.Close()
	}
}

// ended is called by what served a tunnel.
func (c *connections) ended() {
	c.lock.Lock()
	c.tunnels--
	c.lock.Unlock()
}

// lookahead is where Traefik's connection has the reader by which it looked at the first bytes.
var (
	lookaheadOf reflect.Type
	lookahead   int
)

// shrinkLookahead frees that buffer of 4 KiB. Nothing else reads the connection yet.
func shrinkLookahead(connection net.Conn) {
	found := reflect.ValueOf(connection)
	if found.Type() != lookaheadOf {
		if found = findLookahead(connection); !found.IsValid() {
			return
		}
	}
	shrink(reflect.NewAt(readingType, found.Elem().Field(lookahead).UnsafePointer()).Interface().(*reading))
}

// findLookahead is Traefik's connection within that of TLS, or nothing.
func findLookahead(connection net.Conn) reflect.Value {
	found := within(connection, "*tcp.peekConn")
	for i := 0; found.IsValid() && i < found.Elem().NumField(); i++ {
		if found.Elem().Field(i).Type() == readerType {
			lookahead = i
			lookaheadOf = found.Type()
			return found
		}
	}
	return reflect.Value{}
}

var readerType = reflect.TypeOf(&bufio.Reader{})

// The bytes that the buffer holds are read first; every later read bypasses the new one, also a read of a single byte, by which
// net/http looks whether a client leaves. With more room that would take in part of the next head, of which net/http then
// keeps the second part only (see rawHead).
func shrink(ahead *reading) {
	kept := append([]byte{}, ahead.buffer[ahead.next:ahead.buffered]...)
	ahead.from = io.MultiReader(bytes.NewReader(kept), ahead.from)
	ahead.buffer = make([]byte, 1)
	ahead.next = 0
	ahead.buffered = 0
}

// manyConnections is from how many on their first requests leave garbage worth a collection.
const manyConnections = 1000

// collect frees what the first requests of many connections left, halves their stacks and gives the memory back, when a tenth of
// the open ones came since the last time: the runtime waits until there is several times as much garbage as memory in use, and
// idle connections bring that about late or never.
func (s *served) collect() {
	open := reflect.ValueOf(s.server).Elem().FieldByName("activeConn").Len()
	if open < manyConnections || open < s.collected/2 {
		s.collected = 0
	}
	if open >= manyConnections && open-s.collected >= open/10 {
		s.collected = open
		go debug.FreeOSMemory()
	}
}
