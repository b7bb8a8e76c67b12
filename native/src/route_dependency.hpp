// Which link waits for which: the channel dependency graph of a routing, and its shortest cycle.
//
// Under PFC or credits a packet that waits at a switch holds room in the buffer behind the link it
// came over until there is room behind the link it leaves by. So link a waits for link b where some
// packet may come over a and leave by b; links that wait for each other in a circle can stop for
// good (Dally and Seitz 1987; for next-hop sets the condition is sufficient, Duato 1993).
//
// A channel is a live link between two switches: endpoints take in all that reaches them and
// forward nothing, so their links stand in no circle. Channels are numbered switch by switch of
// their source; what a channel waits for is a row of bits over the links that leave its head.
#pragma once
#include <cstdint>
#include <vector>

#include "route_table.hpp"

namespace railweave {

class LinkDependencies {
 public:
  // The table says what is there; it must outlive this object.
  explicit LinkDependencies(const RouteTable& table);

  // All members of the next-hop sets count, towards every edge switch, from every live port.
  void add_next_hops(const Poll& poll);
  // One entry a (switch, destination), as in forwarding tables; nodes and links of the fabric.
  struct Entries {
    std::int64_t count = 0;
    const std::int32_t *node = nullptr, *destination = nullptr, *link = nullptr;
  };
  void add_entries(const Entries& entries, const Poll& poll);
  // What d-mod-k picks, destination by destination, in a graph without tiers; from every live port,
  // and from the one the scheme itself picks among the nearest.
  void add_destinations(const Poll& poll);

  std::int64_t channels() const;      // those that some packet may cross
  std::int64_t dependencies() const;  // pairs (a, b)
  bool waits(std::int32_t a, std::int32_t b) const;

  // Notes for each link of a cycle which traffic first makes it wait for the next: the edge switch
  // or endpoint it goes to, -1 so far none. To be said before anything is added.
  void watch(const std::vector<std::int32_t>& cycle);
  std::vector<std::int32_t> reasons() const;

  struct Cycle {
    std::vector<std::int32_t> links;  // each waits for the next, the last for the first
    bool shortest = true;             // false: the search ended at max_steps
  };
  Cycle shortest_cycle(std::int64_t max_steps, const Poll& poll) const;

 private:
  using Word = std::uint64_t;
  struct Kind {  // destinations with the same edge switches
    std::vector<std::int32_t> edges;
    std::int32_t only = -1;  // the destination, where there is but one; -2: several
  };
  struct Member {
    std::int32_t channel, next;
  };
  struct Sets {
    std::size_t size = 0;
    std::vector<std::vector<Member>> members;
    std::vector<Word> masks;
  };
  class Search;
  class Destinations;

  void read_sources();
  std::vector<Kind> kinds() const;
  void starts(std::int32_t edge, const std::vector<const Kind*>& kinds, std::vector<std::int32_t>& out);
  std::uint32_t set_of(std::int32_t sw, std::int32_t edge);
  void follow_entries(std::int32_t sw, std::int32_t destination);
  struct Way {  // where a message enters, which exit it makes for, d-mod-k's place of that exit
    std::int32_t sw = -1, exit = -1;
    std::uint32_t place = 0;
  };
  std::vector<std::vector<std::int32_t>> senders_alike() const;
  Way way(std::int32_t source, std::int32_t destination, std::int32_t port) const;
  void wait(std::int32_t channel, std::int32_t next, std::int32_t towards);

  void note(std::int32_t channel, std::int32_t towards);

  Word* row(std::int32_t channel) { return bits_.data() + row_[channel]; }
  const Word* row(std::int32_t channel) const { return bits_.data() + row_[channel]; }
  std::size_t words(std::int32_t sw) const { return word_[sw + 1] - word_[sw]; }

  const RouteTable& table_;
  std::vector<std::int32_t> base_;        // [switch]: its first outgoing channel
  std::vector<std::size_t> word_;         // [switch]: first word of a row of bits over all channels
  std::vector<std::int32_t> link_, head_; // [channel]: link, switch it leads to
  std::vector<std::int32_t> channel_;     // [link]: -1 where it is none
  std::vector<std::size_t> row_;          // [channel]: its row in bits_
  std::vector<Word> bits_;
  std::vector<std::uint8_t> used_;        // [channel]

  struct Watched {
    std::int32_t a, b, towards;  // links, node
  };
  std::vector<Watched> watched_;

  std::vector<std::int32_t> source_;      // [switch]: -1 no live sender, the sender, -2 several
  std::vector<std::int32_t> source_sw_;   // switches with senders
  std::vector<Sets> sets_;                // [switch]: its next-hop sets, by number
  std::vector<std::int32_t> stamp_, entry_stamp_, entry_;  // [switch]
};

}  // namespace railweave
