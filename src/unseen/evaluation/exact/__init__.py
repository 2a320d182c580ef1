r"""The exact ranking and k-means engine: the same result on every machine, at the speed of float32.

The problem
    A floating-point matrix product has other last bits for another block size, thread count or processor. Two images
    with equal embeddings then get slightly different similarities, ties are broken by accident, and a score changes
    between two runs of the same evaluation. Double precision alone only makes that rarer.

How it works
    1. **Integer directions** (`directions`). Each embedding is divided by its length and every coordinate is rounded
       once to a multiple of 2^-26. Coordinates are then integers up to 2^26, their products integers up to 2^52, and
       no partial sum of an inner product exceeds 2^53: float64 holds every intermediate result exactly, in any order
       of summation. Similarities are exact functions of these integers, and equal embeddings are exactly equal. The
       rounding turns an embedding by about 1e-7, no more than storing it in float32 does.
    2. **Float32 screening** (`tiles`, `thresholds`, `kernels`). Almost all comparisons are not close. Similarities are
       computed in float32 in square tiles; `thresholds.error_bound` bounds the difference to the exact value for any
       order of summation. If a similarity differs from a threshold by more than the bound, the comparison is decided.
    3. **Exact decisions** (`kernels.products`). The few remaining pairs are multiplied again in integers. If too many
       remain (copies, collapsed embeddings), the whole tile is computed in exact float64.
    4. **Ranks, not neighbours** (`positives`, `count_above`, `ranks`). A query's retrieval scores depend only on where
       its positives rank, so for each positive the items above it and tied with it are counted. No list of neighbours
       is kept, every cut-off k comes from one pass, and the memory is bounded by the caller. The query itself is
       removed by its index, never by being the nearest.
    5. **Ties by expected value** (`ranks`). Tied items have no order: scores are expected values over all their orders.
       A collapsed model scores exactly at chance.
    6. **Order-independence** (`row_hashes`). Where an order is needed (starts of k-means, ties in lists of failures),
       rows are sorted by a hash of their direction, never by their position in the table.

k-means (`kmeans`, `lloyd`) works the same way: points and centroids are integers, the nearest centroid is found in
float32 where the error bound leaves no doubt and in integers elsewhere, sums of members are exact, and equally near
centroids are ordered by number. The clusters are those of plain Lloyd iterations, bit for bit.

`neighbours` (the k nearest items, for people to look at), `nearest_other_class` (for lists of failures) and
`pair_histograms` (all pairs in bins of width 2^-15) use the same directions and tiles. `inputs` checks and reads what a
caller passes in; `threads` replaces torch's threads while our loops run.

Start reading at `ranks.rank_positives`. Its witnesses are in tests/evaluation/exact: loops over Python integers, every
engine against every other, any order of rows, any number of threads, any memory.
"""
