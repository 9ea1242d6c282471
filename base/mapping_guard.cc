#include "base/mapping_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/check.h"

namespace ibid {

// Read by the handler, on whatever thread has faulted, so everything it looks at is an atomic. A slot is free
// while end is 0; slots are used again and never deleted.
struct MappingGuard::Slot {
  std::atomic<uintptr_t> begin = 0;
  std::atomic<uintptr_t> end = 0;
  std::atomic<bool> lost = false;
  Slot* next = nullptr;  // constant once the slot is in the list
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free, "a signal handler must not wait for a lock");

struct MappingGuard::Registry {
  static inline std::atomic<Slot*> slots = nullptr;
  static inline std::mutex mutex;              // of what follows, and of taking and freeing slots
  static inline size_t n_guards = 0;
  static inline bool installed = false;
  static inline struct sigaction previous {};  // constant while the handler is installed

  static void install() {
    if (installed) return;
    struct sigaction ours {};
    ours.sa_sigaction = handle;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    CHECK(::sigaction(SIGBUS, nullptr, &previous) == 0 && ::sigaction(SIGBUS, &ours, nullptr) == 0);
    installed = true;
  }

  static void uninstall() {
    struct sigaction current {};
    CHECK(::sigaction(SIGBUS, nullptr, &current) == 0);
    // Somebody who came later passes on to us: then we stay, and without guards let everything through.
    if ((current.sa_flags & SA_SIGINFO) == 0 || current.sa_sigaction != handle) return;
    CHECK(::sigaction(SIGBUS, &previous, nullptr) == 0);
    installed = false;
  }

  static void handle(int signal, siginfo_t* info, void* context) {
    const int saved_errno = errno;
    const bool from_kernel = info->si_code > 0;  // only then is there an address
    if (!from_kernel || !replace_pages(reinterpret_cast<uintptr_t>(info->si_addr))) pass_on(signal, info, context);
    errno = saved_errno;
  }

  // The page of `address` and all behind it: a file that was cut has lost them too.
  static bool replace_pages(uintptr_t address) {
    for (Slot* slot = slots.load(); slot != nullptr; slot = slot->next) {
      const uintptr_t begin = slot->begin.load();
      const uintptr_t end = slot->end.load();
      if (address < begin || address >= end) continue;
      const uintptr_t page = address & ~(static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)) - 1);
      slot->lost.store(true);
      return ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
    return false;
  }

  static void pass_on(int signal, siginfo_t* info, void* context) {
    if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
    const bool from_kernel = info->si_code > 0;
    if (previous.sa_handler == SIG_IGN && !from_kernel) return;
    if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
    // As if we were not there: the read is tried again when we return; a signal that was sent comes once more.
    ::sigaction(SIGBUS, &previous, nullptr);
    if (!from_kernel) ::raise(signal);
  }

  static Slot* take() {
    for (Slot* slot = slots.load(); slot != nullptr; slot = slot->next) {
      if (slot->end.load() == 0) return slot;
    }
    auto* slot = new Slot;
    slot->next = slots.load();
    slots.store(slot);
    return slot;
  }
};

MappingGuard::MappingGuard(const std::byte* data, size_t size) {
  const std::lock_guard lock(Registry::mutex);
  if (Registry::n_guards++ == 0) Registry::install();
  slot_ = Registry::take();
  slot_->lost.store(false);
  slot_->begin.store(reinterpret_cast<uintptr_t>(data));
  slot_->end.store(reinterpret_cast<uintptr_t>(data) + size);
}

MappingGuard::MappingGuard(MappingGuard&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}

MappingGuard& MappingGuard::operator=(MappingGuard&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

MappingGuard::~MappingGuard() {
  if (slot_ == nullptr) return;
  const std::lock_guard lock(Registry::mutex);
  slot_->end.store(0);
  if (--Registry::n_guards == 0) Registry::uninstall();
}

bool MappingGuard::lost() const { return slot_ != nullptr && slot_->lost.load(); }

}  // namespace ibid
