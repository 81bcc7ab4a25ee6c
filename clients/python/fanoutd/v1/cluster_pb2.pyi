from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClusterAlarm(_message.Message):
    __slots__ = ["alarm", "member_id"]
    ALARM_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    alarm: ClusterMember.Alarm
    member_id: str
    def __init__(self, alarm: _Optional[_Union[ClusterMember.Alarm, str]] = ..., member_id: _Optional[str] = ...) -> None: ...

class ClusterMember(_message.Message):
    __slots__ = ["alarms", "certificate_expires", "client_urls", "database_bytes", "database_bytes_in_use", "disk_free_bytes", "etcd_version", "healthy", "id", "lag_entries", "may_fail", "name", "peer_urls", "problem", "quota_bytes", "role", "version"]
    class Alarm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    ALARMS_FIELD_NUMBER: _ClassVar[int]
    ALARM_CORRUPT: ClusterMember.Alarm
    ALARM_NO_SPACE: ClusterMember.Alarm
    ALARM_UNSPECIFIED: ClusterMember.Alarm
    CERTIFICATE_EXPIRES_FIELD_NUMBER: _ClassVar[int]
    CLIENT_URLS_FIELD_NUMBER: _ClassVar[int]
    DATABASE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATABASE_BYTES_IN_USE_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ETCD_VERSION_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LAG_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    MAY_FAIL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PEER_URLS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    QUOTA_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FOLLOWER: ClusterMember.Role
    ROLE_LEADER: ClusterMember.Role
    ROLE_LEARNER: ClusterMember.Role
    ROLE_UNSPECIFIED: ClusterMember.Role
    VERSION_FIELD_NUMBER: _ClassVar[int]
    alarms: _containers.RepeatedScalarFieldContainer[ClusterMember.Alarm]
    certificate_expires: _timestamp_pb2.Timestamp
    client_urls: _containers.RepeatedScalarFieldContainer[str]
    database_bytes: int
    database_bytes_in_use: int
    disk_free_bytes: int
    etcd_version: str
    healthy: bool
    id: str
    lag_entries: int
    may_fail: bool
    name: str
    peer_urls: _containers.RepeatedScalarFieldContainer[str]
    problem: str
    quota_bytes: int
    role: ClusterMember.Role
    version: str
    def __init__(self, name: _Optional[str] = ..., id: _Optional[str] = ..., peer_urls: _Optional[_Iterable[str]] = ..., client_urls: _Optional[_Iterable[str]] = ..., role: _Optional[_Union[ClusterMember.Role, str]] = ..., healthy: bool = ..., problem: _Optional[str] = ..., may_fail: bool = ..., alarms: _Optional[_Iterable[_Union[ClusterMember.Alarm, str]]] = ..., lag_entries: _Optional[int] = ..., etcd_version: _Optional[str] = ..., version: _Optional[str] = ..., database_bytes: _Optional[int] = ..., database_bytes_in_use: _Optional[int] = ..., quota_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., certificate_expires: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DefragmentMemberRequest(_message.Message):
    __slots__ = ["member"]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    member: str
    def __init__(self, member: _Optional[str] = ...) -> None: ...

class DefragmentMemberResponse(_message.Message):
    __slots__ = ["bytes", "bytes_before"]
    BYTES_BEFORE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    bytes_before: int
    def __init__(self, bytes_before: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class DisarmAlarmsRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class DisarmAlarmsResponse(_message.Message):
    __slots__ = ["cleared", "cluster"]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cleared: _containers.RepeatedCompositeFieldContainer[ClusterAlarm]
    cluster: GetClusterResponse
    def __init__(self, cleared: _Optional[_Iterable[_Union[ClusterAlarm, _Mapping]]] = ..., cluster: _Optional[_Union[GetClusterResponse, _Mapping]] = ...) -> None: ...

class GetClusterRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class GetClusterResponse(_message.Message):
    __slots__ = ["answered_by", "cluster_id", "cluster_version", "leader", "members", "other_alarms", "problem", "safe", "unconfirmed"]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    OTHER_ALARMS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    SAFE_FIELD_NUMBER: _ClassVar[int]
    UNCONFIRMED_FIELD_NUMBER: _ClassVar[int]
    answered_by: str
    cluster_id: str
    cluster_version: str
    leader: str
    members: _containers.RepeatedCompositeFieldContainer[ClusterMember]
    other_alarms: _containers.RepeatedCompositeFieldContainer[ClusterAlarm]
    problem: str
    safe: bool
    unconfirmed: bool
    def __init__(self, cluster_id: _Optional[str] = ..., cluster_version: _Optional[str] = ..., answered_by: _Optional[str] = ..., leader: _Optional[str] = ..., members: _Optional[_Iterable[_Union[ClusterMember, _Mapping]]] = ..., safe: bool = ..., problem: _Optional[str] = ..., other_alarms: _Optional[_Iterable[_Union[ClusterAlarm, _Mapping]]] = ..., unconfirmed: bool = ...) -> None: ...

class MoveLeaderRequest(_message.Message):
    __slots__ = ["member"]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    member: str
    def __init__(self, member: _Optional[str] = ...) -> None: ...

class MoveLeaderResponse(_message.Message):
    __slots__ = ["to"]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    to: str
    def __init__(self, to: _Optional[str] = ..., **kwargs) -> None: ...

class RemoveMemberRequest(_message.Message):
    __slots__ = ["member", "only_if_dead"]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    ONLY_IF_DEAD_FIELD_NUMBER: _ClassVar[int]
    member: str
    only_if_dead: bool
    def __init__(self, member: _Optional[str] = ..., only_if_dead: bool = ...) -> None: ...

class RemoveMemberResponse(_message.Message):
    __slots__ = ["cluster"]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: GetClusterResponse
    def __init__(self, cluster: _Optional[_Union[GetClusterResponse, _Mapping]] = ...) -> None: ...

class TakeSnapshotRequest(_message.Message):
    __slots__ = ["allow_unsafe"]
    ALLOW_UNSAFE_FIELD_NUMBER: _ClassVar[int]
    allow_unsafe: bool
    def __init__(self, allow_unsafe: bool = ...) -> None: ...

class TakeSnapshotResponse(_message.Message):
    __slots__ = ["chunk", "member", "problem", "remaining_bytes"]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    REMAINING_BYTES_FIELD_NUMBER: _ClassVar[int]
    chunk: bytes
    member: str
    problem: str
    remaining_bytes: int
    def __init__(self, chunk: _Optional[bytes] = ..., remaining_bytes: _Optional[int] = ..., member: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class UpdateMemberRequest(_message.Message):
    __slots__ = ["address", "member"]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    address: str
    member: str
    def __init__(self, member: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class UpdateMemberResponse(_message.Message):
    __slots__ = ["peer_url"]
    PEER_URL_FIELD_NUMBER: _ClassVar[int]
    peer_url: str
    def __init__(self, peer_url: _Optional[str] = ...) -> None: ...
