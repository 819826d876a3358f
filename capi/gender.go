package capi

import "strings"

// gender is the rule of ge: f or m, nothing else (page "Customer information
// parameters"). The English words are those that Meta's parameter builder takes;
// words of other languages are taken where they are unambiguous.
func gender(raw string) (Normalised, string) {
	if isPlaceholder(raw) {
		return Normalised{}, ProblemPlaceholder
	}
	text := raw
	if !isPrintASCII(raw) {
		text = plainText(raw)
	}
	text, _, _ = strings.Cut(strings.ToLower(text), "(") // female (cis)
	result := ""
	for part := range strings.SplitSeq(text, "/") { // he/him
		g := genderOf(part)
		if g == "" || result != "" && g != result {
			return Normalised{}, ProblemUnknownGender
		}
		result = g
	}
	return one(result), ""
}

func genderOf(s string) string {
	for _, sign := range []struct{ runes, gender string }{{"♀👩👧🚺", "f"}, {"♂👨👦🚹", "m"}} {
		if strings.ContainsAny(s, sign.runes) {
			return sign.gender
		}
	}
	word := squeeze(s, letterRune)
	if g := genderWords[word]; g != "" {
		return g
	}
	return genderWords[foldAny(word)]
}

var genderWords = func() map[string]string {
	m := map[string]string{}
	for gender, words := range map[string]string{"f": femaleWords, "m": maleWords} {
		for w := range strings.FieldsSeq(words) {
			m[w], m[foldAny(w)] = gender, gender
		}
	}
	return m
}()

const femaleWords = `f female fem feminine woman women girl lady ladies gal chick she her hers mrs ms miss madam maam mom mother
	daughter sister wife aunt niece grandmother grandma girlfriend bride queen princess duchess countess goddess actress
	heroine waitress hostess businesswoman
	femme féminin fille madame mme mademoiselle mlle
	frau weiblich mädchen w
	mujer femenino femenina hembra chica niña señora señorita
	mulher feminino feminina menina senhora moça
	donna femmina femminile ragazza signora signorina
	vrouw vrouwelijk meisje mevrouw
	kvinna kvinnlig flicka kvinde kvindelig pige kvinne kvinnelig jente nainen
	kobieta kobiety żeńska żeński pani žena ženské ženský ženská nő femeie
	kadın kız bayan
	ж жен женский женщина женского девушка девочка она жінка жіноча жіночий әйел
	γυναίκα θήλυ אישה נקבה أنثى انثى امرأة سيدة زن महिला स्त्री หญิง ผู้หญิง nữ wanita perempuan
	女 女性 女子 女士 여 여자 여성`

const maleWords = `m male masc masculine man men boy guy gentleman gent lad dude bloke he him his mr mister sir lord dad father
	son brother husband uncle nephew grandfather grandpa boyfriend groom king prince duke count god actor hero
	waiter host businessman
	homme masculin garçon monsieur
	herr mann männlich junge
	hombre masculino masculina varón macho chico niño señor
	homem menino senhor rapaz
	uomo maschio maschile ragazzo signore
	mannelijk jongen meneer dhr
	manlig pojke mand mandlig dreng mannlig gutt mies
	mężczyzna męska męski pan muž mužské mužský férfi bărbat
	erkek adam bay
	м муж мужской мужчина мужского парень мальчик он чоловік чоловіча чоловічий ер еркек
	άνδρας άρρεν זכר גבר ذكر رجل سيد مرد पुरुष आदमी ชาย ผู้ชาย nam pria lelaki
	男 男性 男子 先生 남 남자 남성`
