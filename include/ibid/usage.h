// The cost of a turn: tokens, time and work. Every answer reports it. Plain data that can be summed. After each struct
// follows the list of its fields with their names, for sums, JSON and files.
#pragma once

#include <cstddef>
#include <iterator>

namespace ibid {

template <typename Struct, typename Value>
struct NamedField {
  const char* name;
  Value Struct::*field;
};

// Numbers of tokens. n_prompt == n_cached + n_prefilled: every position of the prompt is either reused or computed.
struct Usage {
  size_t n_prompt = 0;       // tokens of the whole prompt, history included
  size_t n_cached = 0;       // tokens of the prompt whose keys and values were reused
  size_t n_prefilled = 0;    // tokens of the prompt that this turn computed
  size_t n_from_disk = 0;    // cached tokens whose keys and values were read from the cache directory
  size_t n_reprefilled = 0;  // prefilled tokens that had been computed before, but were evicted
  size_t n_decoded = 0;      // sampled tokens, including the one that ended the turn
  size_t n_drafts = 0;       // passes that verified a draft
  size_t n_drafted = 0;      // draft tokens that were verified; no other count includes them
  size_t n_accepted = 0;     // draft tokens that equalled the sampled token; each of them saves a pass

  Usage& operator+=(const Usage& other);
};

inline constexpr NamedField<Usage, size_t> kUsageFields[] = {
    {"n_prompt", &Usage::n_prompt},       {"n_cached", &Usage::n_cached},          {"n_prefilled", &Usage::n_prefilled},
    {"n_from_disk", &Usage::n_from_disk}, {"n_read_again", &Usage::n_reprefilled}, {"n_decoded", &Usage::n_decoded},
    {"n_drafts", &Usage::n_drafts},       {"n_drafted", &Usage::n_drafted},        {"n_accepted", &Usage::n_accepted}};
static_assert(sizeof(Usage) == std::size(kUsageFields) * sizeof(size_t));

inline Usage& Usage::operator+=(const Usage& other) {
  for (const auto& each : kUsageFields) this->*each.field += other.*each.field;
  return *this;
}

// Times of a turn in milliseconds. The stages (render to sample) do not overlap each other. Time in the event callback
// overlaps the stages, because the next pass runs meanwhile. If the sum of the stages is less than total_ms, the
// difference is the callback's delay at the end. Prefill and decode include the time of other sessions' rows in shared
// passes; match includes waiting for a prefix that another session prefills.
struct Timings {
  double render_ms = 0;  // rendering the chat template
  // Comparing the rendered text with that of the known tokens, and encoding the part that differs.
  double tokenize_ms = 0;
  double match_ms = 0;  // finding and arranging the keys and values to reuse, indexing new tokens
  double prefill_ms = 0;
  double decode_ms = 0;
  double sample_ms = 0;  // sampling tokens, decoding them to text, searching for stop strings
  double ttft_ms = 0;    // from the call to the first sampled token
  double total_ms = 0;
  double prefill_tps = 0;  // n_prefilled tokens per second of prefill time; cached tokens do not count
  double decode_tps = 0;   // sampled tokens except the first, per second of decode and sample time

  // Adds stages of the same turn that were measured separately; total_ms and the rates stay unchanged.
  Timings& operator+=(const Timings& other);
};

inline constexpr NamedField<Timings, double> kStageTimings[] = {
    {"render_ms", &Timings::render_ms},   {"tokenize_ms", &Timings::tokenize_ms}, {"match_ms", &Timings::match_ms},
    {"prefill_ms", &Timings::prefill_ms}, {"decode_ms", &Timings::decode_ms},     {"sample_ms", &Timings::sample_ms},
    {"ttft_ms", &Timings::ttft_ms}};
inline constexpr NamedField<Timings, double> kTurnTimings[] = {
    {"total_ms", &Timings::total_ms}, {"prefill_tps", &Timings::prefill_tps}, {"decode_tps", &Timings::decode_tps}};
static_assert(sizeof(Timings) == (std::size(kStageTimings) + std::size(kTurnTimings)) * sizeof(double));

inline Timings& Timings::operator+=(const Timings& other) {
  for (const auto& each : kStageTimings) this->*each.field += other.*each.field;
  return *this;
}

// Work outside the model, in units that do not depend on the machine. While a conversation only grows, the work of a
// turn does not depend on the length of the conversation; tests check that for every stage.
struct WorkCounters {
  size_t messages_rendered = 0;  // iterations of the template's loop over messages
  size_t bytes_rendered = 0;
  size_t bytes_compared = 0;  // rendered bytes that were compared with the text of the known tokens
  size_t bytes_tokenized = 0;
  size_t tokens_compared = 0;
  size_t tokens_indexed = 0;   // tokens added to the index for drafts
  size_t history_steps = 0;    // tokens counted for penalties, and steps of the repetition search
  size_t kv_bytes_copied = 0;  // bytes of partial pages that were copied before a write
  size_t pages_touched = 0;    // pages that were written, copied or dropped, or to which a reference was added
  size_t n_forward = 0;        // forward passes of the model
  size_t n_rows = 0;           // rows computed in these passes, drafts included

  WorkCounters& operator+=(const WorkCounters& other);
};

inline constexpr NamedField<WorkCounters, size_t> kWorkFields[] = {
    {"messages_rendered", &WorkCounters::messages_rendered},
    {"bytes_rendered", &WorkCounters::bytes_rendered},
    {"bytes_compared", &WorkCounters::bytes_compared},
    {"bytes_tokenized", &WorkCounters::bytes_tokenized},
    {"tokens_compared", &WorkCounters::tokens_compared},
    {"tokens_indexed", &WorkCounters::tokens_indexed},
    {"history_steps", &WorkCounters::history_steps},
    {"kv_bytes_copied", &WorkCounters::kv_bytes_copied},
    {"pages_touched", &WorkCounters::pages_touched},
    {"n_forward", &WorkCounters::n_forward},
    {"n_rows", &WorkCounters::n_rows}};
static_assert(sizeof(WorkCounters) == std::size(kWorkFields) * sizeof(size_t));

inline WorkCounters& WorkCounters::operator+=(const WorkCounters& other) {
  for (const auto& each : kWorkFields) this->*each.field += other.*each.field;
  return *this;
}

}  // namespace ibid
