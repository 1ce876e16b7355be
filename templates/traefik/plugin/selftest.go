package lbgen

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
)

var (
	proving sync.Once
	proof   error
)

// proven is whether net/http's own fields are where they are looked for. That a request's head is found by them is shown by
// the first request of each listener: see knock.
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
	known, _ := reflect.TypeOf(&http.Server{}).Elem().FieldByName("activeConn")
	connection := known.Type.Key().Elem()
	known, _ = connection.FieldByName("curReq") // an atomic.Pointer to a response; its first field names that
	responseType = known.Type.Field(0).Type.Elem().Elem()
	reader, _ := connection.FieldByName("bufr")
	writer, _ := connection.FieldByName("bufw")
	compared := []struct {
		ours, other reflect.Type
		names       [][2]string
	}{
		{servingType, connection, [][2]string{
			{"connection", "rwc"}, {"in", "bufr"}, {"out", "bufw"}, {"answer", "curReq"}, {"state", "curState"},
		}},
		{answerType, responseType, [][2]string{
			{"conn", "conn"}, {"request", "req"}, {"header", "handlerHeader"}, {"written", "written"}, {"status", "status"},
		}},
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
	return nil
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
