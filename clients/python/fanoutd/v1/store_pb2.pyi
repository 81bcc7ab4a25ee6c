from fanoutd.v1 import object_pb2 as _object_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CheckOperation(_message.Message):
    __slots__ = ["key", "mod_revision"]
    KEY_FIELD_NUMBER: _ClassVar[int]
    MOD_REVISION_FIELD_NUMBER: _ClassVar[int]
    key: str
    mod_revision: int
    def __init__(self, key: _Optional[str] = ..., mod_revision: _Optional[int] = ...) -> None: ...

class DeleteOperation(_message.Message):
    __slots__ = ["if_mod_revision", "key", "return_deleted"]
    IF_MOD_REVISION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    RETURN_DELETED_FIELD_NUMBER: _ClassVar[int]
    if_mod_revision: int
    key: str
    return_deleted: bool
    def __init__(self, key: _Optional[str] = ..., if_mod_revision: _Optional[int] = ..., return_deleted: bool = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ["delete", "json_values", "message", "resource", "return_current", "skip_validation", "validate_only"]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    JSON_VALUES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    RETURN_CURRENT_FIELD_NUMBER: _ClassVar[int]
    SKIP_VALIDATION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    delete: DeleteOperation
    json_values: bool
    message: str
    resource: str
    return_current: bool
    skip_validation: bool
    validate_only: bool
    def __init__(self, resource: _Optional[str] = ..., delete: _Optional[_Union[DeleteOperation, _Mapping]] = ..., return_current: bool = ..., json_values: bool = ..., message: _Optional[str] = ..., validate_only: bool = ..., skip_validation: bool = ...) -> None: ...

class DeleteResponse(_message.Message):
    __slots__ = ["applied", "deleted", "object", "revision"]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    applied: bool
    deleted: bool
    object: _object_pb2.Object
    revision: int
    def __init__(self, revision: _Optional[int] = ..., deleted: bool = ..., applied: bool = ..., object: _Optional[_Union[_object_pb2.Object, _Mapping]] = ...) -> None: ...

class Operation(_message.Message):
    __slots__ = ["check", "delete", "put"]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    PUT_FIELD_NUMBER: _ClassVar[int]
    check: CheckOperation
    delete: DeleteOperation
    put: PutOperation
    def __init__(self, put: _Optional[_Union[PutOperation, _Mapping]] = ..., delete: _Optional[_Union[DeleteOperation, _Mapping]] = ..., check: _Optional[_Union[CheckOperation, _Mapping]] = ...) -> None: ...

class OperationResult(_message.Message):
    __slots__ = ["deleted", "object"]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    object: _object_pb2.Object
    def __init__(self, deleted: bool = ..., object: _Optional[_Union[_object_pb2.Object, _Mapping]] = ...) -> None: ...

class PutOperation(_message.Message):
    __slots__ = ["content_type", "data", "if_mod_revision", "keep_ttl", "key", "labels", "overwrite_opaque", "text", "ttl"]
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    IF_MOD_REVISION_FIELD_NUMBER: _ClassVar[int]
    KEEP_TTL_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_OPAQUE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    content_type: str
    data: bytes
    if_mod_revision: int
    keep_ttl: bool
    key: str
    labels: _containers.ScalarMap[str, str]
    overwrite_opaque: bool
    text: str
    ttl: _duration_pb2.Duration
    def __init__(self, key: _Optional[str] = ..., text: _Optional[str] = ..., data: _Optional[bytes] = ..., content_type: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., if_mod_revision: _Optional[int] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., keep_ttl: bool = ..., overwrite_opaque: bool = ...) -> None: ...

class PutRequest(_message.Message):
    __slots__ = ["json_values", "message", "put", "resource", "return_current", "skip_validation", "validate_only"]
    JSON_VALUES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PUT_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    RETURN_CURRENT_FIELD_NUMBER: _ClassVar[int]
    SKIP_VALIDATION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    json_values: bool
    message: str
    put: PutOperation
    resource: str
    return_current: bool
    skip_validation: bool
    validate_only: bool
    def __init__(self, resource: _Optional[str] = ..., put: _Optional[_Union[PutOperation, _Mapping]] = ..., return_current: bool = ..., json_values: bool = ..., message: _Optional[str] = ..., validate_only: bool = ..., skip_validation: bool = ...) -> None: ...

class PutResponse(_message.Message):
    __slots__ = ["applied", "object", "revision"]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    applied: bool
    object: _object_pb2.Object
    revision: int
    def __init__(self, revision: _Optional[int] = ..., applied: bool = ..., object: _Optional[_Union[_object_pb2.Object, _Mapping]] = ...) -> None: ...

class TransactRequest(_message.Message):
    __slots__ = ["json_values", "message", "operations", "resource", "return_current", "skip_validation", "validate_only"]
    JSON_VALUES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    RETURN_CURRENT_FIELD_NUMBER: _ClassVar[int]
    SKIP_VALIDATION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    json_values: bool
    message: str
    operations: _containers.RepeatedCompositeFieldContainer[Operation]
    resource: str
    return_current: bool
    skip_validation: bool
    validate_only: bool
    def __init__(self, resource: _Optional[str] = ..., operations: _Optional[_Iterable[_Union[Operation, _Mapping]]] = ..., return_current: bool = ..., json_values: bool = ..., message: _Optional[str] = ..., validate_only: bool = ..., skip_validation: bool = ...) -> None: ...

class TransactResponse(_message.Message):
    __slots__ = ["applied", "results", "revision"]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    applied: bool
    results: _containers.RepeatedCompositeFieldContainer[OperationResult]
    revision: int
    def __init__(self, revision: _Optional[int] = ..., results: _Optional[_Iterable[_Union[OperationResult, _Mapping]]] = ..., applied: bool = ...) -> None: ...
