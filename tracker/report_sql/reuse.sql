-- By days of UTC.
counted AS (
    SELECT
        epoch_us(retrieved_at) // 86400000000 AS day_number,
        corpus,
        count(*) AS searches,
        sum(forward_passes)::BIGINT AS forward_passes,
        sum(cached_scores)::BIGINT AS cached_scores,
        sum(shared_scores)::BIGINT AS shared_scores,
        sum(reused_scores)::BIGINT AS reused_scores
    FROM searches
    GROUP BY ALL
)
SELECT
    make_timestamptz(day_number * 86400000000) AS day,
    * EXCLUDE (day_number),
    cached_scores / nullif(forward_passes + cached_scores + shared_scores, 0) AS cache_rate,
    reused_scores / nullif(
        forward_passes + cached_scores + shared_scores + reused_scores, 0
    ) AS reuse_rate
FROM counted
ORDER BY day DESC, corpus
LIMIT $limit OFFSET $offset
