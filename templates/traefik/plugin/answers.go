package lbgen

import (
	"net"
	"net/http"
	"strconv"
	"strings"
)

// Respond is an answer without any endpoint.
type Respond struct {
	Status  int
	Body    string
	Headers map[string]string
}

// Redirect is a redirect whose status, host and port are exact.
type Redirect struct {
	Status int
	Scheme string
	Host   string // "" = the request's
	Port   string // with its colon, "" = the scheme's own
	Path   string // what replaces the prefix Strip, or
	Whole  bool   // the whole path
	Strip  string
}

func serveResponse(config *Respond) http.Handler {
	status, body := config.Status, []byte(config.Body)
	hasBody := status != http.StatusNoContent && status != http.StatusNotModified
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		for name, value := range config.Headers {
			header.Set(name, value)
		}
		if hasBody {
			header.Set("Content-Length", strconv.Itoa(len(body)))
		}
		w.WriteHeader(status)
		if hasBody && r.Method != http.MethodHead {
			w.Write(body) // a client that left gets nothing
		}
	})
}

func serveRedirect(config *Redirect) http.Handler {
	status := config.Status
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", location(r, config))
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(status)
	})
}

func location(r *http.Request, config *Redirect) string {
	host := config.Host
	if host == "" {
		host = strings.TrimSuffix(strings.ToLower(hostWithoutPort(r.Host)), ".")
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
