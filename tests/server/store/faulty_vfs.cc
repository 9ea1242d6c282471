#include "tests/server/store/faulty_vfs.h"

#include <new>

namespace ibid::serve {
namespace {

struct FaultyFile {
  sqlite3_file base;
  FaultyVfs* vfs;
  sqlite3_file* real;  // the real file is in the bytes after this object
};

FaultyFile& as_faulty(sqlite3_file* file) { return *reinterpret_cast<FaultyFile*>(file); }
FaultyVfs& vfs_of(sqlite3_vfs* vfs) { return *static_cast<FaultyVfs*>(vfs->pAppData); }

// Forwards a call, unless it is to fail with `error`.
template <typename Pass>
int passed(sqlite3_file* file, int error, const Pass& pass) {
  FaultyFile& faulty = as_faulty(file);
  return faulty.vfs->fails(false) ? error : pass(faulty.real, faulty.real->pMethods);
}

int close_file(sqlite3_file* file) {
  sqlite3_file* real = as_faulty(file).real;
  return real->pMethods == nullptr ? SQLITE_OK : real->pMethods->xClose(real);
}
int read_file(sqlite3_file* file, void* to, int n, sqlite3_int64 at) {
  return passed(file, SQLITE_IOERR_READ, [&](auto* real, auto* methods) { return methods->xRead(real, to, n, at); });
}
int write_file(sqlite3_file* file, const void* from, int n, sqlite3_int64 at) {
  FaultyFile& faulty = as_faulty(file);
  if (faulty.vfs->before_write) faulty.vfs->before_write();
  if (!faulty.vfs->fails(true)) return faulty.real->pMethods->xWrite(faulty.real, from, n, at);
  (void)faulty.real->pMethods->xWrite(faulty.real, from, n / 2, at);
  return faulty.vfs->write_error();
}
int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  return passed(file, SQLITE_IOERR_TRUNCATE, [&](auto* real, auto* methods) { return methods->xTruncate(real, size); });
}
// Does nothing, because test files need not survive a power loss.
int sync_file(sqlite3_file* file, int /*flags*/) {
  return passed(file, SQLITE_IOERR_FSYNC, [](auto*, auto*) { return SQLITE_OK; });
}
int size_of_file(sqlite3_file* file, sqlite3_int64* size) {
  return passed(file, SQLITE_IOERR_FSTAT, [&](auto* real, auto* methods) { return methods->xFileSize(real, size); });
}
int lock_file(sqlite3_file* file, int level) {
  return passed(file, SQLITE_IOERR_LOCK, [&](auto* real, auto* methods) { return methods->xLock(real, level); });
}
int unlock_file(sqlite3_file* file, int level) {
  sqlite3_file* real = as_faulty(file).real;
  return real->pMethods->xUnlock(real, level);
}
int check_lock(sqlite3_file* file, int* result) {
  sqlite3_file* real = as_faulty(file).real;
  return real->pMethods->xCheckReservedLock(real, result);
}
int control_file(sqlite3_file* file, int what, void* argument) {
  sqlite3_file* real = as_faulty(file).real;
  return real->pMethods->xFileControl(real, what, argument);
}
int sector_size(sqlite3_file* file) { return as_faulty(file).real->pMethods->xSectorSize(as_faulty(file).real); }
int characteristics(sqlite3_file* file) {
  return as_faulty(file).real->pMethods->xDeviceCharacteristics(as_faulty(file).real);
}
int map_shared(sqlite3_file* file, int page, int size, int extend, void volatile** out) {
  return passed(file, SQLITE_IOERR_SHMMAP,
                [&](auto* real, auto* methods) { return methods->xShmMap(real, page, size, extend, out); });
}
int lock_shared(sqlite3_file* file, int offset, int n, int flags) {
  sqlite3_file* real = as_faulty(file).real;
  if ((flags & SQLITE_SHM_UNLOCK) != 0) return real->pMethods->xShmLock(real, offset, n, flags);
  return passed(file, SQLITE_IOERR_SHMLOCK,
                [&](auto*, auto* methods) { return methods->xShmLock(real, offset, n, flags); });
}
void barrier(sqlite3_file* file) { as_faulty(file).real->pMethods->xShmBarrier(as_faulty(file).real); }
int unmap_shared(sqlite3_file* file, int remove) {
  sqlite3_file* real = as_faulty(file).real;
  return real->pMethods->xShmUnmap(real, remove);
}

constexpr sqlite3_io_methods kMethods = {
    2,           close_file,  read_file,    write_file,   truncate_file, sync_file,       size_of_file,
    lock_file,   unlock_file, check_lock,   control_file, sector_size,   characteristics, map_shared,
    lock_shared, barrier,     unmap_shared, nullptr,      nullptr};

int open_file(sqlite3_vfs* vfs, sqlite3_filename path, sqlite3_file* file, int flags, int* flags_out) {
  FaultyVfs& faulty = vfs_of(vfs);
  file->pMethods = nullptr;
  if (faulty.fails(false)) return SQLITE_CANTOPEN;
  auto* behind = reinterpret_cast<sqlite3_file*>(reinterpret_cast<FaultyFile*>(file) + 1);
  auto* made = new (file) FaultyFile{{}, &faulty, behind};
  made->real->pMethods = nullptr;
  const int code = faulty.real()->xOpen(faulty.real(), path, made->real, flags, flags_out);
  made->base.pMethods = made->real->pMethods == nullptr ? nullptr : &kMethods;
  return code;
}
int delete_file(sqlite3_vfs* vfs, const char* path, int sync) {
  if (vfs_of(vfs).fails(true)) return SQLITE_IOERR_DELETE;
  return vfs_of(vfs).real()->xDelete(vfs_of(vfs).real(), path, sync);
}
int access_file(sqlite3_vfs* vfs, const char* path, int flags, int* result) {
  if (vfs_of(vfs).fails(false)) return SQLITE_IOERR_ACCESS;
  return vfs_of(vfs).real()->xAccess(vfs_of(vfs).real(), path, flags, result);
}

}  // namespace

FaultyVfs::FaultyVfs() : real_(sqlite3_vfs_find(nullptr)), vfs_(*real_) {
  vfs_.zName = "ibid-faulty";
  vfs_.pAppData = this;
  vfs_.pNext = nullptr;
  vfs_.szOsFile = static_cast<int>(sizeof(FaultyFile)) + real_->szOsFile;
  vfs_.xOpen = open_file;
  vfs_.xDelete = delete_file;
  vfs_.xAccess = access_file;
  sqlite3_vfs_register(&vfs_, 0);
}

FaultyVfs::~FaultyVfs() { sqlite3_vfs_unregister(&vfs_); }

bool FaultyVfs::fails(bool is_write) {
  const int call = n_calls_++;
  const int write = is_write ? n_writes_++ : -1;
  if (fail_at_ < 0) return false;
  const int at = is_full_ ? write : call;
  return at == fail_at_ || (for_good_ && at > fail_at_);
}

}  // namespace ibid::serve
