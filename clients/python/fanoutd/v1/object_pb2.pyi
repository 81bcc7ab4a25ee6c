from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AnyRevision(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class Object(_message.Message):
    __slots__ = ["content_type", "create_revision", "data", "has_ttl", "key", "labels", "mod_revision", "opaque", "text", "version"]
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    CREATE_REVISION_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    HAS_TTL_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MOD_REVISION_FIELD_NUMBER: _ClassVar[int]
    OPAQUE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    content_type: str
    create_revision: int
    data: bytes
    has_ttl: bool
    key: str
    labels: _containers.ScalarMap[str, str]
    mod_revision: int
    opaque: bool
    text: str
    version: int
    def __init__(self, key: _Optional[str] = ..., text: _Optional[str] = ..., data: _Optional[bytes] = ..., content_type: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., opaque: bool = ..., create_revision: _Optional[int] = ..., version: _Optional[int] = ..., mod_revision: _Optional[int] = ..., has_ttl: bool = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ["epoch", "revision"]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    epoch: str
    revision: int
    def __init__(self, epoch: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class ReadConsistency(_message.Message):
    __slots__ = ["any", "exact_revision", "min_revision"]
    ANY_FIELD_NUMBER: _ClassVar[int]
    EXACT_REVISION_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    any: AnyRevision
    exact_revision: int
    min_revision: int
    def __init__(self, any: _Optional[_Union[AnyRevision, _Mapping]] = ..., min_revision: _Optional[int] = ..., exact_revision: _Optional[int] = ...) -> None: ...

class Scope(_message.Message):
    __slots__ = ["key", "prefix"]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    key: str
    prefix: str
    def __init__(self, prefix: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...
