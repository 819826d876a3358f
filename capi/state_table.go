package capi

import "strings"

// usStates gives the ANSI code (FIPS 5-2) of a state, the District of Columbia, a
// territory or a military "state" by name and by the abbreviations of newspapers,
// all written without spaces and points.
var usStates = names(`
al alabama ala | ak alaska | az arizona ariz | ar arkansas ark | ca california calif cal stateofcalifornia
co colorado colo | ct connecticut conn | de delaware del
dc districtofcolumbia washingtondc washingtondistrictofcolumbia
fl florida fla | ga georgia | hi hawaii | id idaho | il illinois ill | in indiana ind | ia iowa | ks kansas kan kans
ky kentucky commonwealthofkentucky | la louisiana | me maine | md maryland
ma massachusetts mass commonwealthofmassachusetts | mi michigan mich | mn minnesota minn | ms mississippi miss
mo missouri | mt montana mont | ne nebraska neb nebr | nv nevada nev | nh newhampshire | nj newjersey
nm newmexico nmex | ny newyork newyorkstate stateofnewyork | nc northcarolina ncarolina ncar | nd northdakota ndakota ndak
oh ohio | ok oklahoma okla | or oregon ore oreg | pa pennsylvania penn penna commonwealthofpennsylvania
ri rhodeisland rhodeislandandprovidenceplantations | sc southcarolina scarolina scar | sd southdakota sdakota sdak
tn tennessee tenn | tx texas tex stateoftexas | ut utah | vt vermont
va virginia commonwealthofvirginia | wa washington wash washingtonstate stateofwashington
wv westvirginia wvirginia wva | wi wisconsin wis wisc | wy wyoming wyo
as americansamoa | gu guam | mp northernmarianaislands commonwealthofthenorthernmarianaislands cnmi
pr puertorico commonwealthofpuertorico | vi usvirginislands virginislands unitedstatesvirginislands
um usminoroutlyingislands unitedstatesminoroutlyingislands
aa armedforcesamericas | ae armedforceseurope armedforcesafrica armedforcesmiddleeast armedforcescanada
ap armedforcespacific`)

// canadianProvinces gives the postal code of a province or territory by its English
// and French name, its abbreviation, and codes that were in use before.
var canadianProvinces = names(`
ab alberta alta | bc britishcolumbia colombiebritannique | mb manitoba man
nb newbrunswick nouveaubrunswick
nl newfoundlandandlabrador newfoundland labrador terreneuveetlabrador terreneuve nf nfld
ns novascotia nouvelleecosse | nt northwestterritories territoiresdunordouest nwt | nu nunavut
on ontario ont | pe princeedwardisland ileduprinceedouard pei
qc quebec pq que provincedequebec | sk saskatchewan sask | yt yukon yukonterritory territoireduyukon`)

// names reads a table: a code and the names that stand for it, up to a bar or the end
// of the line if the next line begins a new code.
func names(table string) map[string]string {
	m := map[string]string{}
	for entry := range strings.FieldsFuncSeq(table, func(r rune) bool { return r == '|' || r == '\n' }) {
		words := strings.Fields(entry)
		if len(words) == 0 {
			continue
		}
		for _, name := range words {
			m[name] = words[0]
		}
	}
	return m
}

// builderNames are the names in which Meta's parameter builder finds a code, longer
// ones before those that they contain.
var builderNames = strings.Fields(`westvirginia arkansas alabama alaska arizona california colorado connecticut delaware florida
	georgia hawaii idaho illinois indiana iowa kansas kentucky louisiana maine maryland massachusetts michigan minnesota
	mississippi missouri montana nebraska nevada newhampshire newjersey newmexico newyork northcarolina northdakota ohio
	oklahoma oregon pennsylvania rhodeisland southcarolina southdakota tennessee texas utah vermont virginia washington
	wisconsin wyoming alberta britishcolumbia manitoba newbrunswick newfoundland northwestterritories novascotia nunavut
	ontario princeedwardisland quebec saskatchewan yukon`)

var builderCodes = func() map[string]string {
	m := map[string]string{}
	for _, name := range builderNames {
		if m[name] = usStates[name]; m[name] == "" {
			m[name] = canadianProvinces[name]
		}
	}
	return m
}()
