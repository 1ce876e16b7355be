//go:build http

// The client of Go's net/http: prints what it got for each part of its work, as JSON.
//
//	http URL-PREFIX CA-FILE VERSION     VERSION: 1.1, h2c or tls
package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"os"
	"strings"
	"time"
)

const size = 2_000_000

type answer map[string]any

var client *http.Client
var prefix string

func body(length int) []byte {
	var made bytes.Buffer
	for number := 0; made.Len() < length; number++ {
		fmt.Fprintf(&made, "%09d\n", number)
	}
	return made.Bytes()[:length]
}

// The request's context ends it, and with it the reading of its body.
func ask(method, path string, content io.Reader, fields ...string) answer {
	request, err := http.NewRequest(method, prefix+path, content)
	if err != nil {
		return answer{"error": err.Error()}
	}
	request.Header.Set("User-Agent", "go") // its own names the version of HTTP
	for at := 0; at < len(fields); at += 2 {
		request.Header.Set(fields[at], fields[at+1])
	}
	reused := false
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	got, err := client.Do(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	if err != nil {
		return answer{"error": strings.Split(err.Error(), "\": ")[1]}
	}
	defer got.Body.Close()
	read, err := io.ReadAll(got.Body)
	if err != nil {
		return answer{"error": err.Error()}
	}
	list := [][2]string{}
	for name, values := range got.Header {
		for _, each := range values {
			list = append(list, [2]string{name, each})
		}
	}
	sum := sha256.Sum256(read)
	made := answer{"status": got.StatusCode, "answer": list, "body": hex.EncodeToString(sum[:]), "reused": reused}
	var account answer
	if json.Unmarshal(read, &account) == nil && account["sha"] != nil {
		made["body"] = account
	}
	return made
}

func main() {
	prefix = os.Args[1]
	authority, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	jar, _ := cookiejar.New(nil)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(os.Args[3] == "1.1")
	protocols.SetUnencryptedHTTP2(os.Args[3] == "h2c")
	protocols.SetHTTP2(os.Args[3] == "tls")
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: pool}}
	transport.ExpectContinueTimeout = 5 * time.Second
	client = &http.Client{Transport: transport, Jar: jar, Timeout: 20 * time.Second}

	large := body(size)
	done := answer{
		"get":         ask("GET", "/http/echo/a%20b/~me?q=a%20b&x=%2F&e=", nil, "X-A", "1"),
		"post":        ask("POST", "/http/echo", bytes.NewReader(large)),
		"in pieces":   ask("PUT", "/http/echo", io.MultiReader(bytes.NewReader(large))),
		"expect":      ask("POST", "/http/echo", bytes.NewReader(large), "Expect", "100-continue"),
		"head":        ask("HEAD", "/http/bytes/100000", nil),
		"packed":      ask("GET", "/http/bytes/100000", nil),
		"redirect":    ask("POST", "/http/redirect", strings.NewReader("again")),
		"pieces":      ask("GET", "/http/chunks/1000", nil),
		"events":      ask("GET", "/sse/events/10", nil),
		"set cookies": ask("GET", "/http/cookies", nil),
		"cookies":     ask("GET", "/http/cookies", nil),
		"refused":     ask("POST", "/early/refuse", bytes.NewReader(large)),
		"after it":    ask("GET", "/early/echo", nil),
	}
	// The transport takes a connection back in a goroutine of its own: on a busy machine at times after the next request.
	reused := 0
	for number := 0; number < 10; number++ {
		if ask("GET", "/http/echo", nil)["reused"] == true {
			reused++
		}
	}
	done["reuse"] = answer{"reused": reused > 5}
	for _, each := range done { // whether others had a connection open is not theirs to say
		if each, ok := each.(answer); ok && each["status"] != nil {
			delete(each, "reused")
		}
	}
	json.NewEncoder(os.Stdout).Encode(done)
}
