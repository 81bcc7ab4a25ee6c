// Package rpc has the interceptors that run before and after each handler.
//
// On the wire, a request with one answer is a stream with one message. gRPC would call the
// interceptors of such a request only after it has read the message, and so before
// the client is authenticated. So a [Registrar] registers all methods as streams, and
// they share these steps, in this order:
//
//  1. [Observers]: metrics and traces
//  2. end streams when the server stops; when the handler has returned or panicked, turn its error into
//     a status, log the end of the request, and record it in the audit log ([Interceptors.Conclude])
//  3. [Interceptors.AdmitRequest]: authenticate, so the identity of the caller is in the context from here on;
//     limit the rate of requests; reserve memory for the request, and limit its size; check the
//     credentials of client streams again with each message
//
// For streams, these are interceptors. A unary method (unaryMethod) calls the steps one after another,
// because each interceptor would cost a part of what a read from memory does. What does not depend on
// the call is found out when the method is registered, and what is off costs nothing.
//
// Entrances, the methods that carry watches, do step 2 themselves, because the stack of an interceptor would stay in
// memory for as long as the watch lasts.
//
// An inner interceptor cannot change the context of an outer one. So it leaves values for outer
// ones in the [Call], such as the identity for the audit log.
//
// Each stream has a context that the server can end ([WithStreamContext], [CutOff]). Nothing else
// ends the wait of a handler that sends to a client that does not read.
//
// [Rights] decides by the current policy what a caller may do. Handlers ask it first.
package rpc
