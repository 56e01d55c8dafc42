stages AS (
    SELECT unnest(map_entries(timings_ms)) AS stage FROM searches
),
measured AS (
    SELECT
        stage.key AS stage,
        count(*) AS searches,
        avg(stage.value) AS mean_ms,
        quantile_cont(stage.value, [0.5, 0.9, 0.99]) AS quantiles,
        max(stage.value) AS max_ms
    FROM stages
    GROUP BY ALL
)
SELECT
    stage,
    searches,
    mean_ms,
    quantiles[1] AS p50_ms,
    quantiles[2] AS p90_ms,
    quantiles[3] AS p99_ms,
    max_ms
FROM measured
ORDER BY mean_ms DESC, stage
LIMIT $limit OFFSET $offset
