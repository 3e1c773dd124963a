"""Files on any file system that Beam knows, and claims on them: a reader and a writer lock, write and rename as the engine does."""

from beam_joins.transforms.engine.files.claim import (
    Claim,
    ClaimInStore,
    claim_at,
    claim_of,
    end_lease,
    give_up,
    new_claim,
    share_lease,
    take_lease,
)
from beam_joins.transforms.engine.files.file_lock import FileLock
from beam_joins.transforms.engine.files.objects import ListedFile, bucket_and_key
from beam_joins.transforms.engine.files.reachability import unreachable
from beam_joins.transforms.engine.files.stored_files import (
    calling,
    cause,
    create_file,
    exists,
    files_below,
    folders_in,
    matching_files,
    open_file,
    read_whole,
    remove_files,
    remove_folder,
    rename,
    write_whole,
)

__all__ = [
    "Claim",
    "ClaimInStore",
    "FileLock",
    "ListedFile",
    "bucket_and_key",
    "calling",
    "cause",
    "claim_at",
    "claim_of",
    "create_file",
    "end_lease",
    "exists",
    "files_below",
    "folders_in",
    "give_up",
    "matching_files",
    "new_claim",
    "open_file",
    "read_whole",
    "remove_files",
    "remove_folder",
    "rename",
    "share_lease",
    "take_lease",
    "unreachable",
    "write_whole",
]
