package jwt

// Forget makes the verifier fetch keys again whenever an unknown token arrives.
func Forget(v *Verifier) { v.issuer.pause.Store(0) }
