package lbgen

import (
	"net"
	"net/http"
	"strconv"
	"strings"
)

// Respond is an answer without any endpoint.
type Respond struct {
	Status    int
	Body      string
	BodyParts []string // texts and facts of the request in turn, instead of Body
	Headers   map[string]string
	Edits     []Edit
	Path      string // as in Values
}

// Redirect is a redirect whose status, host and port are exact.
type Redirect struct {
	Status  int
	Scheme  string
	Host    string // "" = the request's
	Port    string // with its colon, "" = the scheme's own
	Path    string // what replaces the prefix Strip, or
	Whole   bool   // the whole path
	Strip   string
	To      []string // the whole address, as texts and facts of the request in turn
	Pattern string   // as Path in Values
}

func serveResponse(config *Respond) (http.Handler, error) {
	pattern, err := compilePath(config.Path)
	if err != nil {
		return nil, err
	}
	parts, edits := config.BodyParts, config.Edits
	status, body := config.Status, []byte(config.Body)
	hasBody := status != http.StatusNoContent && status != http.StatusNotModified
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		for name, value := range config.Headers {
			header.Set(name, value)
		}
		body := body
		if len(parts)+len(edits) > 0 {
			groups := findGroups(r, pattern)
			applyEdits(header, edits, expandAll(edits, r, groups))
			if len(parts) > 0 {
				body = []byte(expand(parts, r, groups))
			}
		}
		if hasBody {
			header.Set("Content-Length", strconv.Itoa(len(body)))
		}
		w.WriteHeader(status)
		if hasBody && r.Method != http.MethodHead {
			w.Write(body) // a client that left gets nothing
		}
	}), nil
}

func serveRedirect(config *Redirect) (http.Handler, error) {
	pattern, err := compilePath(config.Pattern)
	if err != nil {
		return nil, err
	}
	status := config.Status
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := ""
		if len(config.To) > 0 {
			address = expand(config.To, r, findGroups(r, pattern))
		} else {
			address = location(r, config)
		}
		w.Header().Set("Location", address)
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(status)
	}), nil
}

func location(r *http.Request, config *Redirect) string {
	host := config.Host
	if host == "" {
		host = ownHost(r)
	}
	path, query := r.URL.EscapedPath(), ""
	if _, found, ok := strings.Cut(r.RequestURI, "?"); ok {
		query = "?" + found
	}
	if config.Whole {
		path = config.Path
	} else if path = config.Path + strings.TrimPrefix(path, config.Strip); path == "" {
		path = "/"
	}
	return config.Scheme + "://" + host + config.Port + path + query
}

// ownHost is the request's host in lower case, without port and without a dot at its end.
func ownHost(r *http.Request) string {
	return strings.TrimSuffix(strings.ToLower(hostWithoutPort(r.Host)), ".")
}

// hostWithoutPort keeps the brackets of an address.
func hostWithoutPort(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		return host
	}
	if strings.Contains(name, ":") {
		return "[" + name + "]"
	}
	return name
}
