// Weighted max-min fairness over a changing set of variables.
//
// Every active variable belongs to the group of its bottleneck link; all members of a group have
// the same rate, the link's level. So a rate change of a link is one number, however many flows
// it holds: each group keeps its own virtual clock (bytes a member has been served so far), and a
// member finishes when that clock reaches its target.
//
// A change marks links dirty. Dirty links are visited from low to high level; a visit recomputes
// the level from the levels of the groups that cross the link, takes over every crossing variable
// that is faster than the link can bear, and marks what lies downstream. When nothing is dirty,
// each variable has a saturated link on which its rate is the largest, which is max-min fairness.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "flow_heap.hpp"
#include "flow_interrupt.hpp"
#include "flow_rows.hpp"

namespace railweave::flow {

struct Completion {
  double at;
  std::int32_t var;
  std::int32_t group;
};

// Crossings of one link by variables of one group. Two 32-bit halves: a visit reads both at once.
struct Slot {
  std::int32_t group, count;
};

// What the members of other groups put on each link, kept up by every change of their rates. The
// sum is in two parts, so that millions of changes leave no rounding behind.
struct Loads {
  std::vector<double> sum, low;
  std::vector<double> watch;  // an unsaturated link need not be visited up to here
  std::vector<double> top;    // no crossing is faster than this

  // Keeps in the second part what rounding takes from the first (Dekker; exact where the sum is
  // the larger of the two, next to exact otherwise).
  void add(std::int32_t link, double more) {
    const double before = sum[link], after = before + more;
    low[link] += more - (after - before);
    sum[link] = after;
  }
  double of(std::int32_t link) const { return sum[link] + low[link]; }
};

// A link that members of a group cross, by one of its slots, and the weight of those crossings.
struct Crossed {
  std::int32_t link, slot;
  double weight;
};

class Solver {
 public:
  Solver(Rows rows, std::vector<double> capacity);

  // Activates a variable; `bytes` < 0: it never finishes by itself (its owner decides).
  void set_now(double now) { now_ = now > now_ ? now : now_; }
  void add(std::int32_t var, double bytes);
  void remove(std::int32_t var);
  void set_capacity(std::int32_t link, double capacity);
  void solve(double now, Interrupt& interrupt);

  // Earliest instant at which a group member finishes, at present rates.
  double next_finish();
  // Takes every member finishing up to `limit` out of the clocks (not out of the network).
  void pop_until(double limit, std::vector<Completion>& out);
  void put_back(const Completion& c);
  // Ends a popped variable at `now`: its capacity is free from then on.
  void finish(const Completion& c, double now);

  double rate(std::int32_t var) const;
  double remaining(std::int32_t var, double now) const;
  bool active(std::int32_t var) const { return group_[var] >= 0; }
  std::int32_t links() const { return links_; }
  std::int32_t active_on(std::int32_t link) const { return count_[link]; }
  // Level the variable would have on the link if it sent without pause and was held up nowhere
  // else, others being held to what they get on their other links. Groups from `groups` on count
  // as not there.
  double open_level(std::int32_t link, std::int32_t var, double weight,
                    std::int32_t groups) const;
  // Links visited by solves since the last call of forget_visited().
  const std::vector<std::int32_t>& visited() const { return visited_; }
  void forget_visited() { visited_.clear(); }
  // With it, links are visited whenever a rate on them changes, whether it matters or not.
  void remember_visited();
  double capacity(std::int32_t link) const { return capacity_[link]; }
  const std::vector<double>& peak() const { return peak_; }
  const Rows& rows() const { return rows_; }
  double served(double now) const;  // bytes carried for all variables, by integration of rates
  std::int32_t stuck_link(std::int32_t var) const;  // its bottleneck if that has no capacity

  std::int64_t solves = 0, full_solves = 0, moved = 0, visits = 0, scanned = 0;

 private:
  void attach(std::int32_t var);
  void detach(std::int32_t var);
  void mark_row(std::int32_t var);
  void advance(std::int32_t link);
  void join(std::int32_t var, std::int32_t link, double left);
  double leave(std::int32_t var);
  void relabel(std::int32_t var, std::int32_t link);
  double weight_of(std::int64_t crossing) const {
    return weighted_ ? rows_.weight[static_cast<std::size_t>(crossing)] : 1.0;
  }
  std::int32_t slot_for(std::int32_t link, std::int32_t group);
  void enter_slot(std::int32_t link, std::int32_t group, std::int64_t entry, double weight);
  void leave_slot(std::int32_t link, std::int64_t entry, double weight);
  void set_adjacent(std::int32_t group, std::int32_t link, bool on);
  void rebuild_slots(std::int32_t link);
  void set_own_weight(std::int32_t link, double weight);

  void enter_reach(std::int32_t link, std::int32_t slot);
  void leave_reach(std::int32_t link, std::int32_t slot);
  void update_reach(std::int32_t link, std::int32_t slot);
  void start_pushing();
  void stop_pushing();
  void choose_way();
  void add_load(std::int32_t link, std::int32_t group, double weight);
  void add_up(std::int32_t link);
  void push(std::int32_t group, double level);
  void set_watch(std::int32_t link);

  void relax(Interrupt& interrupt);
  void visit(std::int32_t link);
  void set_level(std::int32_t link, double level);
  bool take_over(std::int32_t link, double level);
  double water_level(std::int32_t link, double start) const;
  void take_faster(std::int32_t link, double level);
  void mark_downstream(std::int32_t link);
  void mark(std::int32_t link);
  std::int32_t next_dirty();
  void clear_dirty();

  void fill_all(Interrupt& interrupt);
  double exact_weight(std::int32_t link) const;
  void freeze(std::int32_t link, double level);
  void rekey();
  void settle();
  void rank_all();
  void rank_again();
  void refresh_finish(std::int32_t link);

  std::int32_t links_;
  bool weighted_;
  Rows rows_;
  std::vector<double> capacity_;

  // Active crossings of each link, dense at the front of the link's own slice.
  std::vector<std::int64_t> slice_;          // link -> first entry
  std::vector<std::int32_t> count_;          // link -> active entries
  std::vector<std::int32_t> entry_crossing_, entry_slot_;
  std::vector<std::int32_t> crossing_entry_, crossing_var_;  // by position in rows_.link

  // What a visit reads: the crossings of a link summed by group, one slot a group. Slots keep
  // their place (freed ones have weight 0 and a group of level 0) and live in the link's slice.
  std::vector<std::int32_t> slots_, slots_used_, latest_slot_;
  std::vector<Slot> slot_;
  std::vector<double> slot_weight_, own_weight_;  // slot_weight_ only if some weight is not 1
  Loads load_;
  static constexpr std::int32_t kMostAge = 64;
  std::vector<std::int32_t> peaking_;             // unsaturated, fuller than ever before
  std::vector<std::int32_t> age_;                 // visits since the load was added up afresh
  std::vector<std::vector<Crossed>> reach_;       // by group: what its members cross, but its own
  bool pushing_ = false;                          // loads and reaches are being kept up
  std::int64_t pulled_ = 0;                       // slots read for want of that
  std::vector<std::int32_t> slot_place_;          // slot -> its place in the group's reach

  // Groups, one a link; index links_ holds variables not placed yet, at an endless level.
  std::vector<double> level_, clock_, since_, finish_, use_, peak_;
  std::vector<std::int32_t> group_count_, sending_, root_;  // sending_: members with an end
  std::vector<double> target_;               // variable -> clock value at which it is done
  std::vector<std::int32_t> group_;          // variable -> link, links_ unplaced, -1 inactive
  HeapForest heap_;

  // Dirty links, one bit each; `order_` lists links by level, `rank_` is its inverse. A sweep
  // goes up the order between the lowest and the highest rank marked.
  std::vector<std::int32_t> rank_, order_;
  std::vector<std::uint64_t> dirty_, heedful_;  // heedful: to be visited at any change
  std::int32_t low_ = 0, high_ = -1;
  std::vector<std::uint64_t> adjacent_;      // group x link bits: what its members cross
  std::size_t words_ = 0, first_word_ = 0, last_word_ = 0;  // of links that somebody crosses
  bool use_adjacent_ = false;
  std::vector<double> key_;                  // what a link is ranked by
  std::int64_t unsorted_ = 0;
  bool ranked_ = false;

  std::vector<std::int32_t> touched_, visited_;
  bool remember_ = false;
  std::vector<std::uint8_t> is_touched_;
  std::vector<double> block_finish_;
  std::vector<std::uint8_t> block_stale_;
  std::vector<std::int32_t> taken_, slot_of_group_;

  // Scratch of the full solve.
  std::vector<double> free_, open_weight_;
  std::vector<std::int32_t> open_;
  std::vector<std::uint32_t> frozen_;
  std::uint32_t fill_epoch_ = 0;
  std::vector<std::pair<double, std::int32_t>> fill_heap_;

  double now_ = 0.0, served_ = 0.0, served_low_ = 0.0;
  std::int64_t active_ = 0, changes_ = 0;
};

}  // namespace railweave::flow
