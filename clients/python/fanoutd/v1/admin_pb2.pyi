from fanoutd.v1 import fanout_pb2 as _fanout_pb2
from fanoutd.v1 import object_pb2 as _object_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from fanoutd.v1.status import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EndWatcherRequest(_message.Message):
    __slots__ = ["id"]
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class EndWatcherResponse(_message.Message):
    __slots__ = ["ended"]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    ended: bool
    def __init__(self, ended: bool = ...) -> None: ...

class ListResourcesRequest(_message.Message):
    __slots__ = ["measure_lag"]
    MEASURE_LAG_FIELD_NUMBER: _ClassVar[int]
    measure_lag: bool
    def __init__(self, measure_lag: bool = ...) -> None: ...

class ListResourcesResponse(_message.Message):
    __slots__ = ["resources", "server"]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[ResourceStatus]
    server: ServerStatus
    def __init__(self, resources: _Optional[_Iterable[_Union[ResourceStatus, _Mapping]]] = ..., server: _Optional[_Union[ServerStatus, _Mapping]] = ...) -> None: ...

class ListWatchersRequest(_message.Message):
    __slots__ = ["failing", "order", "page_size", "page_token", "resource"]
    class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    FAILING_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    ORDER_ID: ListWatchersRequest.Order
    ORDER_LAG: ListWatchersRequest.Order
    ORDER_UNSPECIFIED: ListWatchersRequest.Order
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    failing: bool
    order: ListWatchersRequest.Order
    page_size: int
    page_token: str
    resource: str
    def __init__(self, resource: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., order: _Optional[_Union[ListWatchersRequest.Order, str]] = ..., failing: bool = ...) -> None: ...

class ListWatchersResponse(_message.Message):
    __slots__ = ["failing", "next_page_token", "total", "watchers"]
    FAILING_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    WATCHERS_FIELD_NUMBER: _ClassVar[int]
    failing: int
    next_page_token: str
    total: int
    watchers: _containers.RepeatedCompositeFieldContainer[WatcherStatus]
    def __init__(self, watchers: _Optional[_Iterable[_Union[WatcherStatus, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ..., failing: _Optional[int] = ...) -> None: ...

class PurgeHistoryRequest(_message.Message):
    __slots__ = ["key", "resource"]
    KEY_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    key: str
    resource: str
    def __init__(self, resource: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class PurgeHistoryResponse(_message.Message):
    __slots__ = ["removed"]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    removed: int
    def __init__(self, removed: _Optional[int] = ...) -> None: ...

class ReclaimSpaceRequest(_message.Message):
    __slots__ = ["keep_history"]
    KEEP_HISTORY_FIELD_NUMBER: _ClassVar[int]
    keep_history: bool
    def __init__(self, keep_history: bool = ...) -> None: ...

class ReclaimSpaceResponse(_message.Message):
    __slots__ = ["accepts_writes_again", "bytes", "bytes_before", "compacted_revision", "quota_bytes"]
    ACCEPTS_WRITES_AGAIN_FIELD_NUMBER: _ClassVar[int]
    BYTES_BEFORE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    QUOTA_BYTES_FIELD_NUMBER: _ClassVar[int]
    accepts_writes_again: bool
    bytes: int
    bytes_before: int
    compacted_revision: int
    quota_bytes: int
    def __init__(self, bytes_before: _Optional[int] = ..., bytes: _Optional[int] = ..., quota_bytes: _Optional[int] = ..., compacted_revision: _Optional[int] = ..., accepts_writes_again: bool = ...) -> None: ...

class ReencryptRequest(_message.Message):
    __slots__ = ["page_size", "page_token", "resource"]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    resource: str
    def __init__(self, resource: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ReencryptResponse(_message.Message):
    __slots__ = ["changed_meanwhile", "encrypted", "looked_at", "next_page_token", "primary_key_id", "reencrypted", "remaining", "undecryptable"]
    CHANGED_MEANWHILE_FIELD_NUMBER: _ClassVar[int]
    ENCRYPTED_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_KEY_ID_FIELD_NUMBER: _ClassVar[int]
    REENCRYPTED_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    UNDECRYPTABLE_FIELD_NUMBER: _ClassVar[int]
    changed_meanwhile: int
    encrypted: bool
    looked_at: int
    next_page_token: str
    primary_key_id: int
    reencrypted: int
    remaining: int
    undecryptable: int
    def __init__(self, looked_at: _Optional[int] = ..., reencrypted: _Optional[int] = ..., undecryptable: _Optional[int] = ..., changed_meanwhile: _Optional[int] = ..., next_page_token: _Optional[str] = ..., remaining: _Optional[int] = ..., encrypted: bool = ..., primary_key_id: _Optional[int] = ...) -> None: ...

class ResourceStatus(_message.Message):
    __slots__ = ["age", "cached", "changes", "codec", "encrypted", "fields", "interests", "lag_revisions", "name", "objects", "opaque_values", "position", "primary_key_id", "state", "undecryptable_objects", "validation", "watchers", "window"]
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    AGE_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    ENCRYPTED_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    INTERESTS_FIELD_NUMBER: _ClassVar[int]
    LAG_REVISIONS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    OPAQUE_VALUES_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_KEY_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_CUT_OFF: ResourceStatus.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_LOADING: ResourceStatus.State
    STATE_SERVING: ResourceStatus.State
    STATE_UNSPECIFIED: ResourceStatus.State
    UNDECRYPTABLE_OBJECTS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_FIELD_NUMBER: _ClassVar[int]
    WATCHERS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    age: _duration_pb2.Duration
    cached: bool
    changes: int
    codec: str
    encrypted: bool
    fields: _containers.RepeatedScalarFieldContainer[str]
    interests: int
    lag_revisions: int
    name: str
    objects: int
    opaque_values: int
    position: _object_pb2.Position
    primary_key_id: int
    state: ResourceStatus.State
    undecryptable_objects: int
    validation: ValidationStatus
    watchers: int
    window: WindowStatus
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[ResourceStatus.State, str]] = ..., position: _Optional[_Union[_object_pb2.Position, _Mapping]] = ..., lag_revisions: _Optional[int] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., objects: _Optional[int] = ..., window: _Optional[_Union[WindowStatus, _Mapping]] = ..., cached: bool = ..., codec: _Optional[str] = ..., fields: _Optional[_Iterable[str]] = ..., watchers: _Optional[int] = ..., interests: _Optional[int] = ..., opaque_values: _Optional[int] = ..., changes: _Optional[int] = ..., encrypted: bool = ..., primary_key_id: _Optional[int] = ..., undecryptable_objects: _Optional[int] = ..., validation: _Optional[_Union[ValidationStatus, _Mapping]] = ...) -> None: ...

class ServerStatus(_message.Message):
    __slots__ = ["id", "uptime", "version"]
    ID_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    uptime: _duration_pb2.Duration
    version: str
    def __init__(self, id: _Optional[str] = ..., version: _Optional[str] = ..., uptime: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ValidationStatus(_message.Message):
    __slots__ = ["hash", "problem"]
    HASH_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    hash: str
    problem: str
    def __init__(self, hash: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class WatchAppliedRequest(_message.Message):
    __slots__ = ["instance", "require_all", "resource", "revision", "scope", "subscriber_selector"]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_ALL_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBER_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    instance: str
    require_all: bool
    resource: str
    revision: int
    scope: _object_pb2.Scope
    subscriber_selector: str
    def __init__(self, resource: _Optional[str] = ..., scope: _Optional[_Union[_object_pb2.Scope, _Mapping]] = ..., revision: _Optional[int] = ..., require_all: bool = ..., subscriber_selector: _Optional[str] = ..., instance: _Optional[str] = ...) -> None: ...

class WatchAppliedResponse(_message.Message):
    __slots__ = ["applied", "failed", "not_reporting", "not_reporting_watchers", "pending", "position", "watches"]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    NOT_REPORTING_FIELD_NUMBER: _ClassVar[int]
    NOT_REPORTING_WATCHERS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    WATCHES_FIELD_NUMBER: _ClassVar[int]
    applied: int
    failed: int
    not_reporting: int
    not_reporting_watchers: _containers.RepeatedCompositeFieldContainer[WatcherStatus]
    pending: _containers.RepeatedCompositeFieldContainer[WatcherStatus]
    position: _object_pb2.Position
    watches: int
    def __init__(self, watches: _Optional[int] = ..., applied: _Optional[int] = ..., failed: _Optional[int] = ..., pending: _Optional[_Iterable[_Union[WatcherStatus, _Mapping]]] = ..., not_reporting: _Optional[int] = ..., not_reporting_watchers: _Optional[_Iterable[_Union[WatcherStatus, _Mapping]]] = ..., position: _Optional[_Union[_object_pb2.Position, _Mapping]] = ...) -> None: ...

class WatcherStatus(_message.Message):
    __slots__ = ["applied", "applied_lag", "attempted", "blocked", "bytes", "error", "error_time", "failed_keys", "id", "identity", "lag", "lag_events", "lag_is_minimum", "lag_revisions", "messages", "peer", "position", "reports", "request", "since", "state", "subscriber", "user_agent"]
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    APPLIED_LAG_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTED_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_TIME_FIELD_NUMBER: _ClassVar[int]
    FAILED_KEYS_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LAG_EVENTS_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    LAG_IS_MINIMUM_FIELD_NUMBER: _ClassVar[int]
    LAG_REVISIONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    STATE_CATCHING_UP: WatcherStatus.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_LIVE: WatcherStatus.State
    STATE_UNSPECIFIED: WatcherStatus.State
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    USER_AGENT_FIELD_NUMBER: _ClassVar[int]
    applied: _object_pb2.Position
    applied_lag: _duration_pb2.Duration
    attempted: _object_pb2.Position
    blocked: bool
    bytes: int
    error: _status_pb2.Status
    error_time: _timestamp_pb2.Timestamp
    failed_keys: _containers.RepeatedScalarFieldContainer[str]
    id: str
    identity: str
    lag: _duration_pb2.Duration
    lag_events: int
    lag_is_minimum: bool
    lag_revisions: int
    messages: int
    peer: str
    position: _object_pb2.Position
    reports: bool
    request: _fanout_pb2.WatchRequest
    since: _timestamp_pb2.Timestamp
    state: WatcherStatus.State
    subscriber: _fanout_pb2.Subscriber
    user_agent: str
    def __init__(self, id: _Optional[str] = ..., peer: _Optional[str] = ..., user_agent: _Optional[str] = ..., request: _Optional[_Union[_fanout_pb2.WatchRequest, _Mapping]] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[_Union[WatcherStatus.State, str]] = ..., blocked: bool = ..., position: _Optional[_Union[_object_pb2.Position, _Mapping]] = ..., lag_revisions: _Optional[int] = ..., lag_events: _Optional[int] = ..., lag: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., lag_is_minimum: bool = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., identity: _Optional[str] = ..., subscriber: _Optional[_Union[_fanout_pb2.Subscriber, _Mapping]] = ..., applied: _Optional[_Union[_object_pb2.Position, _Mapping]] = ..., applied_lag: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., error_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., failed_keys: _Optional[_Iterable[str]] = ..., reports: bool = ..., attempted: _Optional[_Union[_object_pb2.Position, _Mapping]] = ...) -> None: ...

class WindowStatus(_message.Message):
    __slots__ = ["bytes", "changes", "oldest_revision", "span"]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    OLDEST_REVISION_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    changes: int
    oldest_revision: int
    span: _duration_pb2.Duration
    def __init__(self, oldest_revision: _Optional[int] = ..., changes: _Optional[int] = ..., bytes: _Optional[int] = ..., span: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...
