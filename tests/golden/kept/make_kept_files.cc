// make_kept_files MODEL OUT: writes with_rows.chat, without_rows.chat and tier/ into the directory OUT (README.md).
#include <cstdio>
#include <string>

#include "ibid/engine.h"
#include "runtime/session/session_state.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string out = argv[2];
  ibid::EngineOptions options;
  options.n_threads = 1;
  options.cache_directory = out + "/tier";
  const auto engine = ibid::Engine::load(argv[1], options);
  if (!engine.ok()) return 1;
  auto chat = ibid::ChatSession::create(*engine, {.system = "Be brief."});
  if (!chat.ok()) return 1;
  for (const char* text : {"Hello!", "And now?"}) {
    if (!chat->send(text, {.max_tokens = 12}).ok()) return 1;
  }
  const bool saved =
      chat->save(out + "/with_rows.chat", {.with_kv = true}).ok() && chat->save(out + "/without_rows.chat").ok();
  return saved ? 0 : 1;
}
