found AS (
    SELECT DISTINCT corpus, document_id FROM own_hits
)
SELECT corpus, document_id, title, updated_at
FROM stock ANTI JOIN found USING (corpus, document_id)
ORDER BY updated_at, corpus, document_id
LIMIT $limit OFFSET $offset
