package store

import "database/sql"

// collect reads all rows of a query; it closes them whatever happens.
func collect[T any](rows *sql.Rows, err error, scan func(row scanner) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, rows.Err()
}

// scanner is a row to be read.
type scanner interface{ Scan(dest ...any) error }

// scanID reads a row that is one id.
func scanID[T ~int64](row scanner) (id T, err error) {
	err = row.Scan(&id)
	return id, err
}
