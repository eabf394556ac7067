package main

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
)

// objects is a store whose objects are files in the folder that the configuration calls `root`, by their keys in hexadecimal digits.
//
// Keys that end with these words fare badly:
//
//	early-failure  is refused before anything of it was read
//	early-success  counts as stored then
//	never-taken    is not read, and not answered
//	crash          ends the process
//	breaks         breaks after two pieces when it is read
//	hangs          does not go on after two pieces
//	watched        notes when it is not read any more
//	noted          notes when it begins to be stored, and when that is broken off
//	protected      cannot be deleted
//	unsigned       has no URL
type objects struct {
	plugin
	root string
}

func (s *objects) Init(config map[string]string) error {
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	note("Init %s %s %s", s.kind, s.name, text)
	if err := framework.ValidateObjectStoreConfigKeys(config, "root", "credentialsFile"); err != nil {
		return err
	}
	if has("refuses-again") && s.root != "" {
		return plain("the credentials have expired")
	}
	s.root = config["root"]
	return nil
}

func (s *objects) path(bucket, key string) (string, error) {
	if s.root == "" {
		return "", plain("it was not initialised")
	}
	folder := filepath.Join(s.root, bucket)
	return filepath.Join(folder, hex.EncodeToString([]byte(key))), os.MkdirAll(folder, 0o755)
}

func (s *objects) PutObject(bucket, key string, body io.Reader) error {
	switch {
	case strings.HasSuffix(key, "early-failure"):
		return plain("AccessDenied: no luck")
	case strings.HasSuffix(key, "early-success"):
		return nil
	case strings.HasSuffix(key, "never-taken"):
		forever()
	case strings.HasSuffix(key, "crash"):
		os.Exit(3)
	case strings.HasSuffix(key, "noted"):
		note("put has begun")
	}
	path, err := s.path(bucket, key)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(s.root, "part-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := io.Copy(file, body); err != nil {
		if strings.HasSuffix(key, "noted") {
			note("put %s was broken off", key)
		}
		return errors.Wrap(err, "the body broke off")
	}
	return os.Rename(file.Name(), path)
}

func (s *objects) ObjectExists(bucket, key string) (bool, error) {
	path, err := s.path(bucket, key)
	if err != nil {
		return false, err
	}
	_, err = os.Stat(path)
	if os.IsNotExist(err) {
		return false, nil
	}
	return err == nil, err
}

// reader reads an object, well or badly.
type reader struct {
	*os.File
	key    string
	pieces int
}

func (r *reader) Read(piece []byte) (int, error) {
	r.pieces++
	if r.pieces > 2 && strings.HasSuffix(r.key, "breaks") {
		return 0, plain("the connection to the cloud broke")
	}
	if r.pieces > 2 && strings.HasSuffix(r.key, "hangs") {
		forever()
	}
	return r.File.Read(piece)
}

func (r *reader) Close() error {
	if strings.HasSuffix(r.key, "watched") {
		note("get has ended")
	}
	return r.File.Close()
}

func (s *objects) GetObject(bucket, key string) (io.ReadCloser, error) {
	path, err := s.path(bucket, key)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		// A text that says it in no known way.
		return nil, plain("there is nothing here")
	}
	return &reader{File: file, key: key}, nil
}

// keys are those with this prefix, in no promised order.
func (s *objects) keys(bucket, prefix string) ([]string, error) {
	if _, err := s.path(bucket, ""); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(s.root, bucket))
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, entry := range entries {
		key, err := hex.DecodeString(entry.Name())
		if err == nil && strings.HasPrefix(string(key), prefix) {
			keys = append(keys, string(key))
		}
	}
	slices.Reverse(keys)
	return keys, nil
}

func (s *objects) ListCommonPrefixes(bucket, prefix, delimiter string) ([]string, error) {
	keys, err := s.keys(bucket, prefix)
	if err != nil {
		return nil, err
	}
	var prefixes []string
	for _, key := range keys {
		if first, _, found := strings.Cut(key[len(prefix):], delimiter); found {
			prefixes = append(prefixes, prefix+first+delimiter)
		}
	}
	return slices.Compact(prefixes), nil
}

func (s *objects) ListObjects(bucket, prefix string) ([]string, error) {
	return s.keys(bucket, prefix)
}

func (s *objects) DeleteObject(bucket, key string) error {
	if strings.HasSuffix(key, "protected") {
		return plain("AccessDenied: it is protected")
	}
	path, err := s.path(bucket, key)
	if err != nil {
		return err
	}
	// As with some plugins, it is an error when it is gone already.
	return os.Remove(path)
}

func (s *objects) CreateSignedURL(bucket, key string, ttl time.Duration) (string, error) {
	if strings.HasSuffix(key, "unsigned") {
		return "", plain("these credentials cannot sign")
	}
	return "https://" + bucket + "/" + key + "?ttl=" + ttl.String(), nil
}
