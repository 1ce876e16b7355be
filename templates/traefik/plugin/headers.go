package lbgen

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
)

// arrival is where a request came from.
type arrival struct {
	peer  string
	trust bool
}

var (
	trailers = []string{"trailers"}
	dropped  = []string{"Keep-Alive", "Proxy-Connection", "Te", "Trailer"}
)

var forwardedNames = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port"}

// forwarded leaves the headers as they go on, before any edit.
func (e *edge) forwarded(r *http.Request, from *arrival) {
	h := r.Header
	if _, asked := h["Upgrade"]; asked && !isWebSocket(r) {
		delete(h, "Upgrade")
	}
	if lines, named := h["Connection"]; named {
		nominate(r, lines)
	}
	for _, name := range dropped {
		delete(h, name)
	}
	if _, asked := h["Pragma"]; asked && r.ProtoMajor == 1 {
		uncached(h)
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

// neverNominated hides, where it is lost, who asks for what.
var neverNominated = map[string]bool{"host": true, "x-forwarded-for": true, "x-forwarded-host": true, "x-forwarded-proto": true}

// mayNominate is whether Connection names only what may be lost.
func mayNominate(lines []string) bool {
	for _, line := range lines {
		if line == "keep-alive" || line == "close" {
			continue
		}
		for _, token := range strings.Split(line, ",") {
			name := strings.ToLower(strings.Trim(token, " \t"))
			if neverNominated[name] || strings.HasPrefix(name, ":") {
				return false
			}
		}
	}
	return true
}

// nominate drops what Connection names, before anything is made in its place.
func nominate(r *http.Request, lines []string) {
	upgrade := isWebSocket(r)
	for _, line := range lines {
		if line == "keep-alive" || line == "close" {
			continue
		}
		for _, token := range strings.Split(line, ",") {
			name := strings.Trim(token, " \t")
			if name != "" && !(upgrade && strings.EqualFold(name, "upgrade")) {
				r.Header.Del(name)
			}
		}
	}
	delete(r.Header, "Connection")
	if upgrade {
		r.Header["Connection"] = []string{"Upgrade"}
	}
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
