// Loads the protocol from its .proto files.

import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';

const folder = (path) => fileURLToPath(new URL(path, import.meta.url));

const definition = loader.loadSync(['fanout/v1/fanout.proto', 'errordetails.proto'], {
  includeDirs: [folder('../../proto'), folder('../proto')],
  keepCase: true, // field names as in the protocol: catch_up, not catchUp
  longs: String, // revisions have 64 bits, numbers only 53
  enums: String, // 'KIND_LIVE', not 4
  defaults: true, // unset fields are false, 0, '' or []; unset messages are null
  oneofs: true, // object.value is 'text' or 'data', depending on which is set
});

export const { FanoutService } = grpc.loadPackageDefinition(definition).fanout.v1;

// The state file contains a ListResponse.
export const listResponse = {
  encode: FanoutService.service.List.responseSerialize,
  decode: FanoutService.service.List.responseDeserialize,
};

const decoder = (name) => definition[`errordetails.${name}`].deserialize;
export const decodeStatus = decoder('Status');
export const decodeErrorInfo = decoder('ErrorInfo');
export const decodeRetryInfo = decoder('RetryInfo');
