package lbgen

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
)

// arrival is where a request came from; head is nil when it was not needed or is lost.
type arrival struct {
	peer  string
	trust bool
	head  []byte
}

var (
	trailers = []string{"trailers"}
	dropped  = []string{"Keep-Alive", "Proxy-Connection", "Te", "Trailer"}
)

// Beginnings of lines in a head in lower case.
var (
	someForwarded = []byte("\nx-forwarded-")
	someAddress   = []byte("\nx-real-ip")
	someCaching   = []byte("\ncache-control")
)

var forwardedNames = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port"}

// Traefik fills these in where a client sent none, the last one always.
var filledNames = []string{"X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Real-Ip", "X-Forwarded-Server"}

// filledIn are the headers that Traefik fills in, as the client sent them, and the Host.
func filledIn(r *http.Request, head []byte) map[string][]string {
	found := map[string][]string{"Host": {r.Host}}
	if head != nil {
		for _, name := range filledNames {
			found[name] = rawLines(head, strings.ToLower(name))
		}
	}
	return found
}

// forwarded leaves the headers as they go on, before any edit.
func (e *edge) forwarded(r *http.Request, from *arrival) {
	h := r.Header
	if _, asked := h["Upgrade"]; asked && !isWebSocket(r) {
		delete(h, "Upgrade")
	}
	for _, name := range dropped {
		delete(h, name)
	}
	if from.head != nil {
		sent := bytes.ToLower(from.head)
		some := bytes.Contains(sent, someForwarded) || bytes.Contains(sent, someAddress)
		for _, name := range filledNames {
			delete(h, name)
			if some {
				if lines := rawLines(from.head, strings.ToLower(name)); len(lines) > 0 {
					h[name] = lines
				}
			}
		}
		if _, asked := h["Pragma"]; asked && !bytes.Contains(sent, someCaching) {
			delete(h, "Cache-Control") // made by Go's server
		}
	} else {
		delete(h, "X-Forwarded-Server")
		if lines := h["X-Real-Ip"]; len(lines) == 1 && lines[0] == from.peer {
			delete(h, "X-Real-Ip")
		}
		if from.trust {
			assumeFilledIn(r)
		}
	}
	if !from.trust {
		for _, name := range forwardedNames {
			delete(h, name)
		}
		delete(h, "X-Request-Id")
	}
	if e.conf.Forwarded {
		list := from.peer
		if from.trust {
			for _, name := range forwardedNames {
				join(h, name)
			}
			if sent := h["X-Forwarded-For"]; len(sent) > 0 {
				list = sent[0] + ", " + list
			}
		}
		h["X-Forwarded-For"] = []string{list}
		if len(h["X-Forwarded-Proto"]) == 0 {
			h["X-Forwarded-Proto"] = []string{e.conf.Scheme}
		}
		if len(h["X-Forwarded-Host"]) == 0 && r.Host != "" {
			h["X-Forwarded-Host"] = []string{r.Host}
		}
		if len(h["X-Forwarded-Port"]) == 0 {
			h["X-Forwarded-Port"] = []string{e.conf.Port}
		}
	}
	if e.conf.RequestID {
		if _, sent := h["X-Request-Id"]; sent {
			join(h, "X-Request-Id")
		}
		if len(h["X-Request-Id"]) == 0 {
			h["X-Request-Id"] = []string{newID()}
		}
	}
}

// assumeFilledIn drops what Traefik would have filled in when the head is lost: what a trusted proxy sends as well is
// then made anew with the same value, but for a port that equals the one in its Host or the scheme's own.
func assumeFilledIn(r *http.Request) {
	h := r.Header
	port := "80"
	if strings.HasPrefix(h.Get("X-Forwarded-Proto"), "https") {
		port = "443"
	}
	if at := strings.LastIndexByte(r.Host, ':'); at >= 0 && !strings.HasSuffix(r.Host, "]") {
		port = r.Host[at+1:]
	}
	if h.Get("X-Forwarded-Port") == port {
		delete(h, "X-Forwarded-Port")
	}
	if proto := h.Get("X-Forwarded-Proto"); proto == "http" || proto == "ws" {
		delete(h, "X-Forwarded-Proto")
	}
	if h.Get("X-Forwarded-Host") == r.Host {
		delete(h, "X-Forwarded-Host")
	}
}

// join makes one line of several and drops empty ones.
func join(h http.Header, name string) {
	lines := h[name]
	if len(lines) == 0 {
		return
	}
	kept := []string{}
	for _, line := range lines {
		if line != "" {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		delete(h, name)
		return
	}
	h[name] = []string{strings.Join(kept, ", ")}
}

func isWebSocket(r *http.Request) bool {
	asked := r.Header["Upgrade"]
	if r.Method != http.MethodGet || len(asked) != 1 || !strings.EqualFold(asked[0], "websocket") {
		return false
	}
	for _, line := range r.Header["Connection"] {
		for _, token := range strings.Split(line, ",") {
			if strings.EqualFold(strings.Trim(token, " \t"), "upgrade") {
				return true
			}
		}
	}
	return false
}

func edit(h http.Header, edits *Edits) {
	if edits == nil {
		return
	}
	for _, name := range edits.Remove {
		h.Del(name)
	}
	for _, pair := range edits.Set {
		h.Set(pair.Name, pair.Value)
	}
	for _, pair := range edits.Add {
		h.Add(pair.Name, pair.Value)
	}
}

func newID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	return hex.EncodeToString(id)
}
