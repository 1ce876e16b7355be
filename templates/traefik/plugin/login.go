package lbgen

import "net/http"

// Login turns a 401 of a service into a redirect to the address that Header of the question holds.
type Login struct {
	Header string
}

func leadToLogin(next http.Handler, header string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := r.Header.Get(header)
		r.Header.Del(header)
		if address == "" {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(&loginWriter{ResponseWriter: w, address: address}, r)
	})
}

type loginWriter struct {
	http.ResponseWriter
	address  string
	replaces bool
}

func (l *loginWriter) WriteHeader(status int) {
	if status == http.StatusUnauthorized {
		l.replaces = true
		header := l.Header()
		for name := range header {
			delete(header, name)
		}
		header.Set("Location", l.address)
		header.Set("Content-Length", "0")
		status = http.StatusFound
	}
	l.ResponseWriter.WriteHeader(status)
}

func (l *loginWriter) Write(data []byte) (int, error) {
	if l.replaces {
		return len(data), nil
	}
	return l.ResponseWriter.Write(data)
}
