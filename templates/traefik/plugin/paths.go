package lbgen

import (
	"regexp"
	"strings"
)

// paths is a listener's policy for paths.
type paths struct {
	mode    string
	empty   bool            // empty segments pass
	plain   bool            // escapes of unreserved characters pass
	escapes map[string]bool // those that pass, digits in upper case
}

var (
	dotSegment = regexp.MustCompile(`/\.\.?(?:/|$)`)
	slashes    = regexp.MustCompile(`//+`)
	decoder    = strings.NewReplacer("%2E", ".", "%2e", ".", "%2F", "/", "%2f", "/")
)

func newPaths(conf *Config) *paths {
	p := &paths{mode: conf.Mode, empty: conf.Empty, plain: conf.Plain, escapes: map[string]bool{}}
	for high := 0; high < 16; high++ {
		for low := 0; low < 16; low++ {
			char := high*16 + low
			if char < 32 || char == 127 || char == '\\' || (char == '/' && !conf.Slash) {
				continue
			}
			if char < 127 && strings.IndexByte(unreserved, byte(char)) >= 0 && !conf.Plain && p.mode != "normalize" {
				continue
			}
			p.escapes[hexDigits[high:high+1]+hexDigits[low:low+1]] = true
		}
	}
	return p
}

// split parts a target in origin-form; matched is the path with upper-case escapes. False when the policy refuses it.
func (p *paths) split(target string) (path, matched, query string, ok bool) {
	if !only(target, uriChars) {
		return "", "", "", false
	}
	path, query = target, ""
	if at := strings.IndexByte(target, '?'); at >= 0 {
		path, query = target[:at], target[at:]
	}
	if p.mode == "verbatim" {
		return path, path, query, !strings.Contains(path, "%00") && !aboveRoot(path)
	}
	matched = path
	if strings.IndexByte(path, '%') >= 0 {
		parts := strings.Split(path, "%")
		for i, part := range parts[1:] {
			if len(part) < 2 {
				return "", "", "", false
			}
			digits := strings.ToUpper(part[:2])
			if !p.escapes[digits] {
				return "", "", "", false
			}
			parts[i+1] = digits + part[2:]
		}
		matched = strings.Join(parts, "%")
	}
	if p.mode == "normalize" {
		path, ok = normal(path)
		if !ok {
			return "", "", "", false
		}
		return path, upperEscapes(path), query, true
	}
	if !p.empty && strings.Contains(path, "//") {
		return "", "", "", false
	}
	dotted := path
	if path != matched || strings.Contains(matched, "%2") {
		dotted = decoder.Replace(matched)
	}
	if strings.Contains(dotted, "/.") && dotSegment.MatchString(dotted) {
		return "", "", "", false
	}
	return path, matched, query, true
}

// upperEscapes writes the escapes of a path, all of them whole, in upper case.
func upperEscapes(path string) string {
	if strings.IndexByte(path, '%') < 0 {
		return path
	}
	parts := strings.Split(path, "%")
	for i, part := range parts[1:] {
		parts[i+1] = strings.ToUpper(part[:2]) + part[2:]
	}
	return strings.Join(parts, "%")
}

// aboveRoot tells whether a path leads above the root when all of it is decoded, slashes too.
func aboveRoot(path string) bool {
	if strings.Contains(path, "%2") {
		path = decoder.Replace(path)
	}
	if !strings.Contains(path, "/..") {
		return false
	}
	depth := 0
	for _, segment := range strings.Split(path[1:], "/") {
		if segment == ".." {
			depth--
		} else if segment != "." {
			depth++
		}
		if depth < 0 {
			return true
		}
	}
	return false
}

// normal decodes unreserved characters, merges slashes and resolves dot segments; false above the root.
func normal(path string) (string, bool) {
	if strings.IndexByte(path, '%') >= 0 {
		parts := strings.Split(path, "%")
		found := parts[0]
		for _, part := range parts[1:] {
			if char := unescape("%" + part[:2]); strings.Contains(unreserved, char) {
				found += char + part[2:]
			} else {
				found += "%" + part
			}
		}
		path = found
	}
	path = slashes.ReplaceAllString(path, "/")
	if !strings.Contains(path, "/.") {
		return path, true
	}
	kept := []string{}
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		last := i == len(segments)-1
		if segment == "." || segment == ".." {
			if segment == ".." {
				if len(kept) == 0 {
					return "", false
				}
				kept = kept[:len(kept)-1]
			}
			if last {
				kept = append(kept, "")
			}
			continue
		}
		kept = append(kept, segment)
	}
	return "/" + strings.Join(kept, "/"), true
}
