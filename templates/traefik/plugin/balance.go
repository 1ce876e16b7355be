package lbgen

import (
	"context"
	"hash/fnv"
	"math"
	"math/rand"
	"time"
)

// take chooses an endpoint for the next try and counts the request there; nil when there is none to be had.
func (p *pool) take(ctx context.Context, s *state) *endpoint {
	p.lock.Lock()
	chosen, full := p.choose(s)
	if full {
		chosen = p.free(ctx, s)
	}
	if chosen != nil {
		chosen.at.active++
	}
	p.lock.Unlock()
	return chosen
}

// free waits a moment, or in the queue, for an endpoint that is not full; the lock is held before and after.
func (p *pool) free(ctx context.Context, s *state) *endpoint {
	if p.conf.Queue != nil {
		return p.wait(ctx, s)
	}
	chosen, full := p.choose(s)
	for i := 0; i < looks && chosen == nil && full; i++ {
		p.lock.Unlock()
		time.Sleep(apart)
		p.lock.Lock()
		chosen, full = p.choose(s)
	}
	return chosen
}

// wait queues for an endpoint; the lock is held before and after.
func (p *pool) wait(ctx context.Context, s *state) *endpoint {
	timer := time.NewTimer(time.Duration(p.conf.Queue.Timeout) * time.Millisecond)
	defer timer.Stop()
	front := false
	for {
		if !front && len(p.waiting) >= p.conf.Queue.Size {
			return nil
		}
		turn := make(chan bool, 1)
		if front {
			p.waiting = append([]chan bool{turn}, p.waiting...)
		} else {
			p.waiting = append(p.waiting, turn)
		}
		p.lock.Unlock()
		called := false
		select {
		case <-turn:
			called = true
		case <-timer.C:
		case <-ctx.Done():
		}
		p.lock.Lock()
		if !called && p.forget(turn) {
			return nil
		}
		chosen, full := p.choose(s) // called, perhaps just when the time was over
		if chosen != nil || !full {
			return chosen
		}
		front = true
	}
}

// forget takes one out of the queue; false when it was called in the meantime.
func (p *pool) forget(turn chan bool) bool {
	kept := []chan bool{}
	for i := 0; i < len(p.waiting); i++ {
		if p.waiting[i] != turn {
			kept = append(kept, p.waiting[i])
		}
	}
	found := len(kept) < len(p.waiting)
	p.waiting = kept
	return found
}

// leave ends a request at an endpoint.
func (p *pool) leave(chosen *endpoint) {
	p.lock.Lock()
	chosen.at.active--
	if len(p.waiting) > 0 {
		p.call(1)
	}
	p.lock.Unlock()
}

// call lets so many of the queue choose again.
func (p *pool) call(most int) {
	for i := 0; i < most && len(p.waiting) > 0; i++ {
		first := p.waiting[0]
		p.waiting = p.waiting[1:]
		first <- true
	}
}

// choose picks an endpoint: the sticky one, else by balance among those that are up, first those that were not tried.
// Also whether only full endpoints kept it from finding one.
func (p *pool) choose(s *state) (*endpoint, bool) {
	if p.plain && s.tried == nil && s.stuck == nil {
		if len(p.endpoints) == 1 {
			return p.endpoints[0], false
		}
		return p.balance(p.endpoints, s, time.Time{}), false
	}
	return p.sift(s, time.Now())
}

// sift leaves out who is out, full or tried.
func (p *pool) sift(s *state, now time.Time) (*endpoint, bool) {
	if s.stuck != nil && len(s.tried) == 0 {
		stuck := s.stuck
		if !stuck.at.out(now) && (p.conf.Max == 0 || stuck.at.active < p.conf.Max) {
			return stuck, false
		}
		s.stuck = nil
	}
	main, backup := []*endpoint{}, []*endpoint{}
	full := false
	for _, each := range p.endpoints {
		if each.conf.Weight == 0 || each.at.out(now) {
			continue
		}
		if each.conf.Backup {
			backup = append(backup, each)
		} else {
			main = append(main, each)
		}
	}
	group := main
	if len(main) == 0 {
		group = backup
	} else if len(s.tried) > 0 && len(backup) > 0 && len(s.fresh(main)) == 0 {
		group = backup // every other one was tried
	}
	if len(s.tried) > 0 {
		if untried := s.fresh(group); len(untried) > 0 {
			group = untried
		} else { // from the start
			s.tried = map[*endpoint]bool{}
			if len(main) > 0 {
				group = main
			}
		}
	}
	if p.conf.Max > 0 {
		open := []*endpoint{}
		for _, each := range group {
			if each.at.active < p.conf.Max {
				open = append(open, each)
			}
		}
		full = len(open) == 0 && len(group) > 0
		group = open
	}
	if len(group) == 0 {
		return nil, full
	}
	return p.balance(group, s, now), false
}

// fresh are those of a group that the request did not try yet.
func (s *state) fresh(group []*endpoint) []*endpoint {
	found := []*endpoint{}
	for _, each := range group {
		if !s.tried[each] {
			found = append(found, each)
		}
	}
	return found
}

func (p *pool) balance(group []*endpoint, s *state, now time.Time) *endpoint {
	if len(group) == 1 {
		return group[0]
	}
	if p.conf.Balance == "round_robin" {
		return p.turns(group, now)
	}
	return p.other(group, s, now)
}

// turns is round robin, smooth by weight.
func (p *pool) turns(group []*endpoint, now time.Time) *endpoint {
	var best *endpoint
	total := 0.0
	for _, each := range group {
		weight := p.weight(each, now)
		total += weight
		each.credit += weight
		if best == nil || each.credit > best.credit {
			best = each
		}
	}
	best.credit -= total
	return best
}

// other is every other way to balance.
func (p *pool) other(group []*endpoint, s *state, now time.Time) *endpoint {
	kind := p.conf.Balance
	if kind == "hash" {
		if s.hash != "" {
			return hashed(group, s.hash)
		}
		kind = "random"
	}
	if kind == "source_hash" {
		return hashed(group, s.peer)
	}
	var best *endpoint
	if kind == "least_connections" {
		p.turn++
		most := 0.0
		for i := range group {
			each := group[(i+p.turn)%len(group)]
			if load := float64(each.at.active+1) / p.weight(each, now); best == nil || load < most {
				best, most = each, load
			}
		}
		return best
	}
	total := 0.0 // random
	for _, each := range group {
		total += p.weight(each, now)
	}
	point := rand.Float64() * total
	for _, each := range group {
		best = each
		if point -= p.weight(each, now); point < 0 {
			break
		}
	}
	return best
}

// weight is an endpoint's share, smaller while it starts slowly.
func (p *pool) weight(each *endpoint, now time.Time) float64 {
	if p.conf.Slow > 0 && !each.at.back.IsZero() {
		part := float64(now.Sub(each.at.back)) / float64(time.Duration(p.conf.Slow)*time.Millisecond)
		if part < 1 {
			return float64(each.conf.Weight) * math.Max(part, 0.05)
		}
	}
	return float64(each.conf.Weight)
}

// hashed is the endpoint that wins for a key: of all it has the best draw for its weight, so that only the keys of an
// endpoint that goes move.
func hashed(group []*endpoint, key string) *endpoint {
	var best *endpoint
	most := 0.0
	for _, each := range group {
		sum := fnv.New64a()
		_, _ = sum.Write([]byte(key + " " + each.conf.Host + ":" + each.conf.Port))
		draw := sum.Sum64() // similar texts give similar sums: mixed as in murmur3
		draw ^= draw >> 33
		draw *= 0xff51afd7ed558ccd
		draw ^= draw >> 33
		draw *= 0xc4ceb9fe1a85ec53
		draw ^= draw >> 33
		score := float64(each.conf.Weight) / -math.Log((float64(draw>>11)+0.5)/9007199254740992.0)
		if best == nil || score > most {
			best, most = each, score
		}
	}
	return best
}
