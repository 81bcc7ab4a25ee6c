from fanoutd.v1 import object_pb2 as _object_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from fanoutd.v1.status import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DELIVERY_EVERY: Delivery
DELIVERY_LATEST: Delivery
DELIVERY_UNSPECIFIED: Delivery
DESCRIPTOR: _descriptor.FileDescriptor

class Event(_message.Message):
    __slots__ = ["object", "previous", "revision", "type"]
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TYPE_ADDED: Event.Type
    TYPE_DELETED: Event.Type
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TYPE_MODIFIED: Event.Type
    TYPE_UNSPECIFIED: Event.Type
    object: _object_pb2.Object
    previous: _object_pb2.Object
    revision: int
    type: Event.Type
    def __init__(self, object: _Optional[_Union[_object_pb2.Object, _Mapping]] = ..., revision: _Optional[int] = ..., type: _Optional[_Union[Event.Type, str]] = ..., previous: _Optional[_Union[_object_pb2.Object, _Mapping]] = ...) -> None: ...

class FromNow(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ["consistency", "json_values", "key", "last_change", "resource"]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    JSON_VALUES_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    LAST_CHANGE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    consistency: _object_pb2.ReadConsistency
    json_values: bool
    key: str
    last_change: bool
    resource: str
    def __init__(self, resource: _Optional[str] = ..., key: _Optional[str] = ..., consistency: _Optional[_Union[_object_pb2.ReadConsistency, _Mapping]] = ..., json_values: bool = ..., last_change: bool = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ["last_change", "object", "position", "ttl"]
    LAST_CHANGE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    last_change: LastChange
    object: _object_pb2.Object
    position: _object_pb2.Position
    ttl: _duration_pb2.Duration
    def __init__(self, object: _Optional[_Union[_object_pb2.Object, _Mapping]] = ..., position: _Optional[_Union[_object_pb2.Position, _Mapping]] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., last_change: _Optional[_Union[LastChange, _Mapping]] = ...) -> None: ...

class HistoryEntry(_message.Message):
    __slots__ = ["author", "has_ttl", "key", "kind", "message", "object", "replaced_revision", "revision", "time", "transaction_writes"]
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    HAS_TTL_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_DELETE: HistoryEntry.Kind
    KIND_EARLIER: HistoryEntry.Kind
    KIND_EXPIRED: HistoryEntry.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    KIND_GAP: HistoryEntry.Kind
    KIND_PUT: HistoryEntry.Kind
    KIND_UNSPECIFIED: HistoryEntry.Kind
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    REPLACED_REVISION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_WRITES_FIELD_NUMBER: _ClassVar[int]
    author: str
    has_ttl: bool
    key: str
    kind: HistoryEntry.Kind
    message: str
    object: _object_pb2.Object
    replaced_revision: int
    revision: int
    time: _timestamp_pb2.Timestamp
    transaction_writes: int
    def __init__(self, kind: _Optional[_Union[HistoryEntry.Kind, str]] = ..., key: _Optional[str] = ..., revision: _Optional[int] = ..., author: _Optional[str] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., message: _Optional[str] = ..., replaced_revision: _Optional[int] = ..., transaction_writes: _Optional[int] = ..., has_ttl: bool = ..., object: _Optional[_Union[_object_pb2.Object, _Mapping]] = ...) -> None: ...

class HistoryRequest(_message.Message):
    __slots__ = ["json_values", "page_size", "page_token", "resource", "revision", "scope", "time", "values"]
    JSON_VALUES_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    json_values: bool
    page_size: int
    page_token: str
    resource: str
    revision: int
    scope: _object_pb2.Scope
    time: _timestamp_pb2.Timestamp
    values: bool
    def __init__(self, resource: _Optional[str] = ..., scope: _Optional[_Union[_object_pb2.Scope, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., revision: _Optional[int] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., values: bool = ..., json_values: bool = ...) -> None: ...

class HistoryResponse(_message.Message):
    __slots__ = ["entries", "next_page_token", "revision"]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[HistoryEntry]
    next_page_token: str
    revision: int
    def __init__(self, entries: _Optional[_Iterable[_Union[HistoryEntry, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class LastChange(_message.Message):
    __slots__ = ["author", "message", "time"]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    author: str
    message: str
    time: _timestamp_pb2.Timestamp
    def __init__(self, author: _Optional[str] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., message: _Optional[str] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ["consistency", "count_only", "field_selector", "json_values", "label_selector", "omit_values", "page_size", "page_token", "resource", "scope", "start_key"]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    COUNT_ONLY_FIELD_NUMBER: _ClassVar[int]
    FIELD_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    JSON_VALUES_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    OMIT_VALUES_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    START_KEY_FIELD_NUMBER: _ClassVar[int]
    consistency: _object_pb2.ReadConsistency
    count_only: bool
    field_selector: str
    json_values: bool
    label_selector: str
    omit_values: bool
    page_size: int
    page_token: str
    resource: str
    scope: _object_pb2.Scope
    start_key: str
    def __init__(self, resource: _Optional[str] = ..., scope: _Optional[_Union[_object_pb2.Scope, _Mapping]] = ..., consistency: _Optional[_Union[_object_pb2.ReadConsistency, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., start_key: _Optional[str] = ..., label_selector: _Optional[str] = ..., field_selector: _Optional[str] = ..., count_only: bool = ..., omit_values: bool = ..., json_values: bool = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ["next_page_token", "objects", "position", "remaining_count"]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    REMAINING_COUNT_FIELD_NUMBER: _ClassVar[int]
    next_page_token: str
    objects: _containers.RepeatedCompositeFieldContainer[_object_pb2.Object]
    position: _object_pb2.Position
    remaining_count: int
    def __init__(self, objects: _Optional[_Iterable[_Union[_object_pb2.Object, _Mapping]]] = ..., position: _Optional[_Union[_object_pb2.Position, _Mapping]] = ..., next_page_token: _Optional[str] = ..., remaining_count: _Optional[int] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ["applied", "attempted", "error", "failed_keys", "watch"]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FAILED_KEYS_FIELD_NUMBER: _ClassVar[int]
    WATCH_FIELD_NUMBER: _ClassVar[int]
    applied: _object_pb2.Position
    attempted: _object_pb2.Position
    error: _status_pb2.Status
    failed_keys: _containers.RepeatedScalarFieldContainer[str]
    watch: str
    def __init__(self, watch: _Optional[str] = ..., applied: _Optional[_Union[_object_pb2.Position, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., attempted: _Optional[_Union[_object_pb2.Position, _Mapping]] = ..., failed_keys: _Optional[_Iterable[str]] = ...) -> None: ...

class ReportResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ["report", "start", "stop", "subscriber"]
    class Report(_message.Message):
        __slots__ = ["applied", "attempted", "error", "failed_keys", "watch_id"]
        APPLIED_FIELD_NUMBER: _ClassVar[int]
        ATTEMPTED_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        FAILED_KEYS_FIELD_NUMBER: _ClassVar[int]
        WATCH_ID_FIELD_NUMBER: _ClassVar[int]
        applied: _object_pb2.Position
        attempted: _object_pb2.Position
        error: _status_pb2.Status
        failed_keys: _containers.RepeatedScalarFieldContainer[str]
        watch_id: int
        def __init__(self, watch_id: _Optional[int] = ..., applied: _Optional[_Union[_object_pb2.Position, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., attempted: _Optional[_Union[_object_pb2.Position, _Mapping]] = ..., failed_keys: _Optional[_Iterable[str]] = ...) -> None: ...
    class Start(_message.Message):
        __slots__ = ["request", "watch_id"]
        REQUEST_FIELD_NUMBER: _ClassVar[int]
        WATCH_ID_FIELD_NUMBER: _ClassVar[int]
        request: WatchRequest
        watch_id: int
        def __init__(self, watch_id: _Optional[int] = ..., request: _Optional[_Union[WatchRequest, _Mapping]] = ...) -> None: ...
    class Stop(_message.Message):
        __slots__ = ["watch_id"]
        WATCH_ID_FIELD_NUMBER: _ClassVar[int]
        watch_id: int
        def __init__(self, watch_id: _Optional[int] = ...) -> None: ...
    REPORT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    report: SubscribeRequest.Report
    start: SubscribeRequest.Start
    stop: SubscribeRequest.Stop
    subscriber: Subscriber
    def __init__(self, subscriber: _Optional[_Union[Subscriber, _Mapping]] = ..., start: _Optional[_Union[SubscribeRequest.Start, _Mapping]] = ..., stop: _Optional[_Union[SubscribeRequest.Stop, _Mapping]] = ..., report: _Optional[_Union[SubscribeRequest.Report, _Mapping]] = ...) -> None: ...

class SubscribeResponse(_message.Message):
    __slots__ = ["entries", "more"]
    class Entry(_message.Message):
        __slots__ = ["ended", "refused", "response", "watch_ids"]
        ENDED_FIELD_NUMBER: _ClassVar[int]
        REFUSED_FIELD_NUMBER: _ClassVar[int]
        RESPONSE_FIELD_NUMBER: _ClassVar[int]
        WATCH_IDS_FIELD_NUMBER: _ClassVar[int]
        ended: _status_pb2.Status
        refused: _status_pb2.Status
        response: WatchResponse
        watch_ids: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, watch_ids: _Optional[_Iterable[int]] = ..., response: _Optional[_Union[WatchResponse, _Mapping]] = ..., refused: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., ended: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[SubscribeResponse.Entry]
    more: bool
    def __init__(self, entries: _Optional[_Iterable[_Union[SubscribeResponse.Entry, _Mapping]]] = ..., more: bool = ...) -> None: ...

class Subscriber(_message.Message):
    __slots__ = ["instance", "labels"]
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    labels: _containers.ScalarMap[str, str]
    def __init__(self, instance: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ["after", "bookmark_interval", "consistency", "delivery", "every_event", "field_selector", "from_now", "json_values", "label_selector", "max_batch_delay", "omit_values", "previous_object", "reports", "resource", "scope", "subscriber", "time_limit"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BOOKMARK_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    EVERY_EVENT_FIELD_NUMBER: _ClassVar[int]
    FIELD_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    FROM_NOW_FIELD_NUMBER: _ClassVar[int]
    JSON_VALUES_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_DELAY_FIELD_NUMBER: _ClassVar[int]
    OMIT_VALUES_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_OBJECT_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    after: _object_pb2.Position
    bookmark_interval: _duration_pb2.Duration
    consistency: _object_pb2.ReadConsistency
    delivery: Delivery
    every_event: bool
    field_selector: str
    from_now: FromNow
    json_values: bool
    label_selector: str
    max_batch_delay: _duration_pb2.Duration
    omit_values: bool
    previous_object: bool
    reports: bool
    resource: str
    scope: _object_pb2.Scope
    subscriber: Subscriber
    time_limit: _duration_pb2.Duration
    def __init__(self, resource: _Optional[str] = ..., scope: _Optional[_Union[_object_pb2.Scope, _Mapping]] = ..., after: _Optional[_Union[_object_pb2.Position, _Mapping]] = ..., from_now: _Optional[_Union[FromNow, _Mapping]] = ..., consistency: _Optional[_Union[_object_pb2.ReadConsistency, _Mapping]] = ..., label_selector: _Optional[str] = ..., field_selector: _Optional[str] = ..., previous_object: bool = ..., omit_values: bool = ..., bookmark_interval: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., delivery: _Optional[_Union[Delivery, str]] = ..., max_batch_delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., time_limit: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., every_event: bool = ..., subscriber: _Optional[_Union[Subscriber, _Mapping]] = ..., reports: bool = ..., json_values: bool = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ["age", "catch_up", "events", "kind", "partial", "position", "resume_at_once"]
    class CatchUp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    AGE_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_DELTA: WatchResponse.CatchUp
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_REPLAY: WatchResponse.CatchUp
    CATCH_UP_RESET: WatchResponse.CatchUp
    CATCH_UP_UNSPECIFIED: WatchResponse.CatchUp
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    KIND_BOOKMARK: WatchResponse.Kind
    KIND_CATCH_UP_BEGIN: WatchResponse.Kind
    KIND_CATCH_UP_PART: WatchResponse.Kind
    KIND_DRAINING: WatchResponse.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    KIND_LIVE: WatchResponse.Kind
    KIND_SYNCED: WatchResponse.Kind
    KIND_UNSPECIFIED: WatchResponse.Kind
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    RESUME_AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    age: _duration_pb2.Duration
    catch_up: WatchResponse.CatchUp
    events: _containers.RepeatedCompositeFieldContainer[Event]
    kind: WatchResponse.Kind
    partial: bool
    position: _object_pb2.Position
    resume_at_once: bool
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., position: _Optional[_Union[_object_pb2.Position, _Mapping]] = ..., kind: _Optional[_Union[WatchResponse.Kind, str]] = ..., catch_up: _Optional[_Union[WatchResponse.CatchUp, str]] = ..., partial: bool = ..., resume_at_once: bool = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Delivery(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
