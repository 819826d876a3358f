package capi_test

import (
	"testing"
	"time"

	"github.com/capiloop/capiloop/capi"
)

// plainPerson is what most events carry: ASCII, eleven keys to hash.
func plainPerson() capi.UserData {
	return capi.UserData{
		Email: []string{"Jane.Doe@Example.com"}, Phone: []string{"+16505550142"}, FirstName: []string{"Jane"}, LastName: []string{"O'Brien"},
		Gender: []string{"f"}, BirthDate: []string{"1997-02-16"}, City: []string{"New York"}, State: []string{"NY"}, Zip: []string{"10001"},
		Country: []string{"US"}, ExternalID: []string{"user-123"},
		ClientIPAddress: "203.0.113.7", ClientUserAgent: "Mozilla/5.0", FBC: "fb.1.1750000000000.AbCdEf", FBP: "fb.1.1750000000000.1234567890",
	}
}

func BenchmarkNormalise(b *testing.B) {
	for name, change := range map[string]func(*capi.UserData){
		"plain":          func(*capi.UserData) {},
		"national phone": func(u *capi.UserData) { u.Phone = []string{"(650) 555-0142"} },
		"accents": func(u *capi.UserData) {
			u.FirstName, u.LastName, u.City = []string{"Valéry"}, []string{"MÜLLER"}, []string{"São Paulo"}
		},
	} {
		person := plainPerson()
		change(&person)
		l := capi.Locale{Country: "US", Now: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e := capi.Event{EventName: "Lead", EventTime: 1_750_000_000, UserData: person}
				_ = e.Normalise(l)
			}
		})
	}
}

func BenchmarkHashText(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		capi.HashText("jane.doe@example.com")
	}
}
