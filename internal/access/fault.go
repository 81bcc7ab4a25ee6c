package access

// Fault is why credentials are refused. It is for the log, which has few lines for each: the answer
// to the caller says less.
type Fault string

// The faults.
const (
	FaultMissing     Fault = "missing"   // there are none
	FaultMalformed   Fault = "malformed" // they cannot be read
	FaultUnknown     Fault = "unknown"   // the token is not in the file
	FaultChanged     Fault = "changed"   // what the file says about the token has changed
	FaultExpired     Fault = "expired"
	FaultNotYet      Fault = "not-yet"     // the JWT is not valid yet
	FaultUnknownKey  Fault = "unknown-key" // the issuer has no key with the id that the JWT names
	FaultSignature   Fault = "signature"   // no key of the issuer fits the signature
	FaultIssuer      Fault = "issuer"      // the JWT is from another issuer
	FaultAudience    Fault = "audience"    // the JWT is for others
	FaultClaims      Fault = "claims"      // a claim is missing or has the wrong form
	FaultCertificate Fault = "certificate" // no authority vouches for the certificate, or it has no name
)
