package lbgen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"
)

var (
	proving sync.Once
	proof   error
)

// proven is whether all that is read of net/http's own state is there, as found by serving requests in memory.
func proven() error {
	proving.Do(func() {
		defer func() {
			if failure := recover(); failure != nil {
				proof = fmt.Errorf("lbgen does not know the net/http of this Traefik: %v", failure)
			}
		}()
		proof = prove()
	})
	return proof
}

func prove() error {
	kind := reflect.TypeOf(&http.Server{}).Elem()
	known, _ := kind.FieldByName("activeConn")
	connection := known.Type.Key().Elem()
	connType = connection
	known, _ = connection.FieldByName("curReq") // an atomic.Pointer to a response; its first field names that
	response := known.Type.Field(0).Type.Elem().Elem()
	responseType = response
	written, counts := response.FieldByName("written")
	atWritten = written.Index[0]
	reader, ok := connection.FieldByName("bufr")
	atReader = reader.Index[0]
	held, has := response.FieldByName("conn")
	atConn = held.Index[0]
	buffer, holds := reader.Type.Elem().FieldByName("buf")
	atBuffer = buffer.Index[0]
	end, ends := reader.Type.Elem().FieldByName("r")
	atEnd = end.Index[0]
	if !ok || !has || !counts || !holds || !ends {
		return errors.New("lbgen: a field of net/http is missing")
	}
	writer, _ := connection.FieldByName("bufw")
	compared := []struct {
		ours, other reflect.Type
		names       [][2]string
	}{
		{servingType, connection, [][2]string{{"connection", "rwc"}, {"in", "bufr"}, {"out", "bufw"}, {"answer", "curReq"}}},
		{answerType, response, [][2]string{{"request", "req"}, {"header", "handlerHeader"}}},
		{readingType, reader.Type.Elem(), [][2]string{{"buffer", "buf"}, {"next", "r"}, {"buffered", "w"}}},
		{writingType, writer.Type.Elem(), [][2]string{{"buffer", "buf"}, {"buffered", "n"}}},
	}
	for _, each := range compared {
		for _, pair := range each.names {
			at := offset(each.other, pair[1])
			if at < 0 || at != offset(each.ours, pair[0]) {
				return errors.New("lbgen: " + pair[1] + " of net/http is elsewhere")
			}
		}
	}
	if madeCaching = caching("Pragma: no-cache"); madeCaching == caching("Cache-Control: no-cache") || madeCaching == 0 {
		return errors.New("lbgen: net/http treats Pragma in another way")
	}
	const asked = "GET /proof HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-A: b\r\n\r\n"
	here, there := net.Pipe()
	found := make(chan error, 1)
	server := &http.Server{}
	go serveOnce(server, here, found, func(w http.ResponseWriter, r *http.Request) bool {
		c := &conn{}
		c.find(w)
		w.Header().Set("X-Proof", "yes")
		at := *c.answer
		if at == nil || at.request.RequestURI != "/proof" || at.header.Get("X-Proof") != "yes" {
			return false
		}
		if len(c.held.out.buffer) == 0 || c.held.out.buffered != 0 || c.state() != http.StateActive || c.current() != w {
			return false
		}
		known := string(c.buffer[:*c.end]) == asked
		return known && string(rawHead(w, r)) == asked && original(w).RequestURI == "/proof"
	})
	_, _ = io.WriteString(there, asked)
	_, _ = io.Copy(io.Discard, there)
	if err := <-found; err != nil {
		return err
	}
	here, there = net.Pipe()
	server = &http.Server{}
	reflect.ValueOf(server).Elem().FieldByName("Protocols").Set(protocols("SetUnencryptedHTTP2"))
	go serveOnce(server, here, found, func(w http.ResponseWriter, _ *http.Request) bool { return original(w).RequestURI == "/proof" })
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return there, nil }}
	reflect.ValueOf(transport).Elem().FieldByName("Protocols").Set(protocols("SetUnencryptedHTTP2"))
	question, err := http.NewRequest(http.MethodGet, "http://h/proof", nil)
	if err != nil {
		return err
	}
	reply, err := transport.RoundTrip(question)
	if err != nil {
		return err
	}
	_ = reply.Body.Close()
	_ = there.Close()
	err = <-found // apart, since the interpreter cannot return it at once
	return err
}

// offset is where a struct has a field, -1 for nowhere. The interpreter writes an X before names of its own structs.
func offset(kind reflect.Type, name string) int {
	for i := 0; i < kind.NumField(); i++ {
		field := kind.Field(i)
		if field.Name == name || field.Name == "X"+name {
			return int(field.Offset)
		}
	}
	return -1
}

// caching is the address of the Cache-Control of a request with that line.
func caching(line string) uintptr {
	made, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\nHost: h\r\n" + line + "\r\n\r\n")))
	if err != nil || len(made.Header["Cache-Control"]) != 1 {
		return 0
	}
	return reflect.ValueOf(made.Header["Cache-Control"][0]).Pointer()
}

// serveOnce serves one connection and judges its request, and what went to the client, by the functions of wire.go.
func serveOnce(server *http.Server, connection net.Conn, found chan error, holds func(http.ResponseWriter, *http.Request) bool) {
	server.ReadTimeout = 2 * time.Second
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := errors.New("lbgen does not find what net/http holds of a request")
		defer func() {
			_ = recover()
			found <- err
		}()
		known := holds(w, r)
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "abc")
		if status, size := sent(w); known && status == http.StatusAccepted && size == 3 {
			err = nil
		}
	})
	_ = server.Serve(&onlyOne{connection: connection})
}

// onlyOne is a listener for one connection.
type onlyOne struct{ connection net.Conn }

// Accept gives the connection, then an end.
func (l *onlyOne) Accept() (net.Conn, error) {
	given := l.connection
	if given == nil {
		return nil, net.ErrClosed
	}
	l.connection = nil
	return given, nil
}

// Close does nothing.
func (l *onlyOne) Close() error { return nil }

// Addr is nowhere.
func (l *onlyOne) Addr() net.Addr { return &net.TCPAddr{} }
