package leadform

// The names by which the platforms call the standard fields.

var metaTypes = map[string]Canonical{
	"FULL_NAME": FullName, "FIRST_NAME": FirstName, "LAST_NAME": LastName,
	"EMAIL": Email, "WORK_EMAIL": WorkEmail, "PHONE": Phone, "WORK_PHONE_NUMBER": WorkPhone,
	"STREET_ADDRESS": Street, "CITY": City, "STATE": State, "PROVINCE": State,
	"POST_CODE": Postcode, "ZIP": Postcode, "COUNTRY": Country,
	"DOB": Birthday, "GENDER": Gender, "COMPANY_NAME": Company, "JOB_TITLE": JobTitle,
	"RELATIONSHIP_STATUS": Relationship, "MARITIAL_STATUS": Relationship, "MILITARY_STATUS": Military,
}

var googleColumns = map[string]Canonical{
	"FULL_NAME": FullName, "FIRST_NAME": FirstName, "LAST_NAME": LastName,
	"EMAIL": Email, "WORK_EMAIL": WorkEmail,
	"PHONE_NUMBER": Phone, "PHONE_NUMBER_VERIFIED": Phone, "WORK_PHONE": WorkPhone,
	"STREET_ADDRESS": Street, "CITY": City, "REGION": State, "POSTAL_CODE": Postcode, "COUNTRY": Country,
	"COMPANY_NAME": Company, "JOB_TITLE": JobTitle,
	"JOB_DEPARTMENT": JobFunction, "JOB_ROLE": JobFunction, "COMPANY_SIZE": CompanySize,
}

var tiktokFields = map[string]Canonical{
	"name": FullName, "full_name": FullName, "first_name": FirstName, "last_name": LastName,
	"email": Email, "work_email": WorkEmail, "phone_number": Phone, "phone": Phone,
	"address": Street, "street_address": Street, "city": City, "province": State, "state": State, "province_state": State,
	"province/state": State, "zip_code": Postcode, "postcode": Postcode, "country": Country,
	"birthday": Birthday, "date_of_birth": Birthday, "gender": Gender,
	"company_name": Company, "job_title": JobTitle,
}

var linkedinFields = map[string]Canonical{
	"FIRST_NAME": FirstName, "LAST_NAME": LastName, "EMAIL": Email, "WORK_EMAIL": WorkEmail,
	"PHONE_NUMBER": Phone, "WORK_PHONE_NUMBER": WorkPhone,
	"CITY": City, "STATE": State, "ZIP_CODE": Postcode, "COUNTRY": Country,
	"GENDER": Gender, "COMPANY_NAME": Company, "JOB_TITLE": JobTitle,
	"JOB_FUNCTION": JobFunction, "SENIORITY": Seniority, "INDUSTRY": Industry, "COMPANY_SIZE": CompanySize,
}

var websiteFields = map[string]Canonical{
	"name": FullName, "full_name": FullName, "fullname": FullName,
	"first_name": FirstName, "fname": FirstName, "firstname": FirstName, "given_name": FirstName, "forename": FirstName,
	"last_name": LastName, "lname": LastName, "lastname": LastName, "surname": LastName, "family_name": LastName,

	"email": Email, "e_mail": Email, "mail": Email, "email_address": Email, "e_mail_address": Email, "emailaddress": Email,
	"work_email": WorkEmail, "business_email": WorkEmail, "company_email": WorkEmail,
	"phone": Phone, "tel": Phone, "telephone": Phone, "mobile": Phone, "cell": Phone, "phone_number": Phone,
	"phonenumber": Phone, "mobile_number": Phone, "mobile_phone": Phone, "telephone_number": Phone,
	"work_phone": WorkPhone, "work_phone_number": WorkPhone, "business_phone": WorkPhone,

	"address": Street, "street": Street, "street_address": Street, "address_line1": Street,
	"city": City, "town": City, "address_level2": City,
	"state": State, "region": State, "province": State, "address_level1": State,
	"zip": Postcode, "zip_code": Postcode, "zipcode": Postcode, "postcode": Postcode, "post_code": Postcode, "postal_code": Postcode,
	"country": Country, "country_name": Country,

	"dob": Birthday, "birthdate": Birthday, "birthday": Birthday, "date_of_birth": Birthday, "bday": Birthday,
	"gender": Gender, "sex": Gender,
	"company": Company, "organisation": Company, "organization": Company, "company_name": Company,
	"job_title": JobTitle, "jobtitle": JobTitle, "position": JobTitle, "organization_title": JobTitle,
	"industry": Industry, "company_size": CompanySize,
}
