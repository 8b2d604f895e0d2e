// The peer of scripts/bench where `consul lock` can't be one: HashiCorp's Go client does what our callers and candidates do.
//
//	go-client callers -key P -callers 80 -limit 100 -term 50ms -for 10s   turns of callers that share slots
//	go-client contest -key K -candidates 20 -term 0ms -terms 500   leaders that follow one another
//	go-client tries   -key K -wait 5ms -for 5s                     one that tries again and again to lead beside a leader
//	go-client follow  -key K -followers 50 -for 12s                reads that follow a key
//
// It speaks to the agent at CONSUL_HTTP_ADDR, and prints its figures as one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"
)

type figures struct {
	TermsPerS  float64 `json:"terms_per_s,omitempty"`
	GapP50Ms   float64 `json:"gap_p50_ms,omitempty"`
	GapP99Ms   float64 `json:"gap_p99_ms,omitempty"`
	MaxLeaders int     `json:"max_leaders,omitempty"`
	Tries      int64   `json:"tries,omitempty"`
	Polls      int64   `json:"polls,omitempty"`
	Turns      int64   `json:"turns,omitempty"`
	TurnsPerS  float64 `json:"turns_per_s,omitempty"`
	Seconds    float64 `json:"seconds"`
}

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("contest, callers, tries or follow?"))
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	key := flags.String("key", "bench/go/leader", "the election's key")
	candidates := flags.Int("candidates", 20, "how many campaign")
	term := flags.Duration("term", 0, "how long each leads")
	terms := flags.Int64("terms", 500, "after so many terms it is over")
	wait := flags.Duration("wait", 5*time.Millisecond, "how long one try waits")
	callers := flags.Int("callers", 80, "how many want a slot again and again")
	limit := flags.Int("limit", 3, "how many may hold one at once")
	followers := flags.Int("followers", 50, "how many follow")
	lasts := flags.Duration("for", 5*time.Second, "how long it lasts")
	_ = flags.Parse(os.Args[2:])
	var found figures
	var err error
	switch os.Args[1] {
	case "contest":
		found, err = contest(*key, *candidates, *term, *terms)
	case "callers":
		found, err = callersTurns(*key, *callers, *limit, *term, *lasts)
	case "tries":
		found, err = tries(*key, *wait, *lasts)
	case "follow":
		found, err = follow(*key, *followers, *lasts)
	default:
		err = fmt.Errorf("what is %s?", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
	fail(json.NewEncoder(os.Stdout).Encode(found))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// Each candidate has a client, as processes on machines of their own have.
func client() (*api.Client, error) { return api.NewClient(api.DefaultConfig()) }

type belief struct{ since, until time.Time }

func contest(key string, candidates int, term time.Duration, terms int64) (figures, error) {
	var mutex sync.Mutex
	var beliefs []belief
	var led atomic.Int64
	var group sync.WaitGroup
	failures := make(chan error, candidates)
	stop := make(chan struct{})
	var stopping sync.Once
	for range candidates {
		group.Go(func() {
			err := campaign(key, term, stop, func(it belief) {
				mutex.Lock()
				beliefs = append(beliefs, it)
				mutex.Unlock()
				if led.Add(1) >= terms {
					stopping.Do(func() { close(stop) })
				}
			})
			if err != nil {
				failures <- err
				stopping.Do(func() { close(stop) })
			}
		})
	}
	group.Wait()
	select {
	case err := <-failures:
		return figures{}, err
	default:
	}
	return measured(beliefs), nil
}

// Each caller waits for a slot, holds it for a while, and wants one again, as often as there is time for.
func callersTurns(prefix string, callers, limit int, hold, lasts time.Duration) (figures, error) {
	var turns atomic.Int64
	began := time.Now()
	failures := make(chan error, callers)
	stop := make(chan struct{})
	time.AfterFunc(lasts, func() { close(stop) })
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			consul, err := client()
			if err != nil {
				failures <- err
				return
			}
			for time.Since(began) < lasts {
				semaphore, err := consul.SemaphoreOpts(&api.SemaphoreOptions{Prefix: prefix, Limit: limit})
				if err != nil {
					failures <- err
					return
				}
				// A caller that is refused a connection, or loses a race too often, asks again.
				if lost, err := semaphore.Acquire(stop); err != nil || lost == nil {
					continue
				}
				time.Sleep(hold)
				if err := semaphore.Release(); err == nil && time.Since(began) < lasts {
					turns.Add(1)
				}
			}
		})
	}
	group.Wait()
	select {
	case err := <-failures:
		return figures{}, err
	default:
	}
	return figures{Turns: turns.Load(), TurnsPerS: float64(turns.Load()) / lasts.Seconds(), Seconds: time.Since(began).Seconds()}, nil
}

func campaign(key string, term time.Duration, stop chan struct{}, ended func(belief)) error {
	consul, err := client()
	if err != nil {
		return err
	}
	session, _, err := consul.Session().Create(&api.SessionEntry{TTL: "15s"}, nil)
	if err != nil {
		return err
	}
	defer consul.Session().Destroy(session, nil)
	lock, err := consul.LockOpts(&api.LockOptions{Key: key, Session: session})
	if err != nil {
		return err
	}
	for {
		lost, err := lock.Lock(stop)
		if err != nil || lost == nil {
			return err
		}
		since := time.Now()
		time.Sleep(term)
		until := time.Now()
		if err := lock.Unlock(); err != nil {
			return err
		}
		ended(belief{since, until})
	}
}

func measured(beliefs []belief) figures {
	sort.Slice(beliefs, func(a, b int) bool { return beliefs[a].since.Before(beliefs[b].since) })
	var gaps []float64
	most, last := 0, beliefs[0].until
	for at, it := range beliefs {
		leaders := 0
		for _, other := range beliefs {
			if !other.since.After(it.since) && it.since.Before(other.until) {
				leaders++
			}
		}
		most = max(most, leaders)
		if at > 0 {
			gaps = append(gaps, it.since.Sub(beliefs[at-1].until).Seconds()*1000)
		}
		if it.until.After(last) {
			last = it.until
		}
	}
	sort.Float64s(gaps)
	at := func(percent int) float64 { return gaps[(len(gaps)-1)*percent/100] }
	took := last.Sub(beliefs[0].since).Seconds()
	return figures{
		TermsPerS: float64(len(beliefs)) / took, GapP50Ms: at(50), GapP99Ms: at(99), MaxLeaders: max(most, 1), Seconds: took,
	}
}

func tries(key string, wait, lasts time.Duration) (figures, error) {
	leader, err := client()
	if err != nil {
		return figures{}, err
	}
	leads, err := leader.LockKey(key)
	if err != nil {
		return figures{}, err
	}
	if _, err := leads.Lock(nil); err != nil {
		return figures{}, err
	}
	defer leads.Unlock()
	consul, err := client()
	if err != nil {
		return figures{}, err
	}
	began := time.Now()
	var count int64
	for time.Since(began) < lasts {
		lock, err := consul.LockOpts(&api.LockOptions{Key: key, LockTryOnce: true, LockWaitTime: wait})
		if err != nil {
			return figures{}, err
		}
		if _, err := lock.Lock(nil); err != nil {
			return figures{}, err
		}
		count++
	}
	return figures{Tries: count, Seconds: time.Since(began).Seconds()}, nil
}

func follow(key string, followers int, lasts time.Duration) (figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	began := time.Now()
	var polls atomic.Int64
	var group sync.WaitGroup
	for range followers {
		consul, err := client()
		if err != nil {
			return figures{}, err
		}
		group.Go(func() {
			var index uint64
			for ctx.Err() == nil {
				options := (&api.QueryOptions{WaitIndex: index, WaitTime: 15 * time.Second}).WithContext(ctx)
				polls.Add(1)
				if _, meta, err := consul.KV().Get(key, options); err == nil {
					index = meta.LastIndex
				}
			}
		})
	}
	group.Wait()
	return figures{Polls: polls.Load(), Seconds: time.Since(began).Seconds()}, nil
}
