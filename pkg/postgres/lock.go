package postgres

import "github.com/pressly/goose/v3/lock"

// sessionLocker makes concurrent migrations wait for each other.
func sessionLocker() (lock.SessionLocker, error) { return lock.NewPostgresSessionLocker() }
